//! A ledger's charges in NOR flash: append-only, in three copies, over a ring of erase sectors.
//!
//! # Format
//!
//! A slot is three copies of a block of 32 bytes. Slots are numbered from provisioning on, and number `n` lies at place
//! `n mod slots`, so that an entry tells where it belongs. In each sector
//!
//! ```text
//! slot 0         the newest charge when the sector was begun: the sector is whole and carries on
//! slots 1 ..     charges
//! last slot      written when another sector has taken over: what is newest is no longer here
//! ```
//!
//! A charge is written copy by copy, each read back before the next is begun; after the third it is persisted. So a restart
//! tells slots apart:
//!
//! | copies | it was | and is |
//! | --- | --- | --- |
//! | any is whole | begun at least | paid |
//! | none is whole, one is blank | cut before it was persisted, or never begun and hit: nothing was released for it | passed over |
//! | none is whole, none is blank | persisted, and hit three times | refused if it may be the newest |
//!
//! # Power cuts
//!
//! A word that was being written when power failed may read as any mix of old and new bits, differently each time, and may
//! read as blank. Then it may be written once more, and its bits still be in doubt. Why three copies suffice: the **first**
//! may lie in words that a cut had touched before. The **second** is begun after the first was read back, and so is the third:
//! by then the slot is not blank and never again taken for it; both lie in words that nothing had touched. That the
//! **third** was begun tells that the second is beyond doubt. And what a restart finds in less than three copies is written
//! again, to the next slot, before it is reported: nothing rests on a word that may change its mind.
//!
//! A flash that refuses words that a cut has touched is taken at its word, and the next slot is used. A word that cannot be
//! read counts as damaged.
//!
//! A sector is erased only when it is not the one that holds the newest charge, so a cut erase loses nothing, whatever it
//! leaves behind.
//!
//! # What a driver must do
//!
//! - **Write and erase**: return `Ok` only when the words are in the cells, not in a buffer. Refuse or accept words that a cut has touched;
//!   both will do.
//! - **Read**: return an error for a word that error correction (ECC) cannot correct. On many parts (STM32 L4, G4 and H7 among them) such a
//!   read raises a fault or a non-maskable interrupt instead, and a cut leaves such words. A driver that lets the fault reset the
//!   device makes it reset at every start, for [`Journal::open`] reads the whole region. So: mask the fault or handle it (on a Cortex-M7 a
//!   read with `FAULTMASK` and `BFHFNMIGN` set; on an STM32L4 an NMI handler that clears `ECCD`), and after each read look at the flag of
//!   the flash controller; if it is set, clear it and return an error.
//! - **No stale reads**: read past caches, or invalidate them, after a write or an erase. The journal reads back what it wrote.
//!
//! # Page disturb
//!
//! On some parts a cut write or erase also damages a word that was written long before, in the same page or a sector beside it. A cut
//! may so tear one copy of the newest charge and damage another. The third is left, and the next restart writes three copies again before
//! it reports the charge. If that restart is cut too, and the next, each may take one more copy. A charge with no copy left is
//! noticed as [`JournalError::Corrupted`]: the run ends, and no charge is forgotten.
//!
//! # What is noticed
//!
//! Any damage to one or two copies is repaired from the third. Damage to all copies of the newest charge, and the loss of the
//! sector that it is in, erased or overwritten, are noticed ([`JournalError::Corrupted`]), and so is a blank region
//! ([`JournalError::Blank`]): none is taken for "nothing paid". Not noticed is an older image put back, of the region or of the
//! sector in use; that takes a [monotonic counter](crate::SealedJournal).
//!
//! A damaged journal does not open. The owner can go on from it by an act of their own, [`Journal::recover`], which charges all that the damage
//! may hide. A journal of an earlier version is refused by name ([`JournalError::OtherConfiguration`]) and is not erased: its charges are
//! read by the version that wrote them, and come off the budget of the run that goes on.
//!
//! # Cost
//!
//! 96 bytes of flash a charge, an erase every `ERASE_SIZE / 96 − 2` charges, taken by the sectors in turn. Opening reads the
//! region once. Words of up to 32 bytes, sectors of 512 bytes or more, two or more of them. 48 bytes of RAM beside the flash's
//! driver.

use crate::block::{self, Block, Words};
use crate::{Allowance, Configuration, FirstBoot};
use core::fmt;
use core::num::NonZeroU32;
use damper_core::accounting::{ReadStore, Record, Store};
use damper_core::numerics::up::add_up;
use embedded_storage::nor_flash::NorFlash;

const COPIES: u32 = 3;
const SLOT: u32 = COPIES * block::BYTES;
/// "DJL2": a charge of the second format, whose fingerprint is made of the step.
const KIND: u32 = u32::from_le_bytes(*b"DJL2");
/// "DJL1": a charge of the first, whose fingerprint was made of the caller's items.
const EARLIER: u32 = u32::from_le_bytes(*b"DJL1");

/// Why a journal cannot be used, or a charge was not persisted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum JournalError<E> {
    /// The flash failed.
    Flash(E),
    /// The region is not two or more whole sectors.
    Geometry,
    /// Nothing is there. On a device that was provisioned, someone erased it: what was charged is unknown.
    Blank,
    /// A region to be provisioned is not erased.
    Occupied,
    /// The journal is another configuration's or an earlier version's, or the ledger is another's than the journal. Nothing is erased.
    OtherConfiguration,
    /// The budget is above 2³¹ steps.
    Budget,
    /// Damage that may hide charges. [`Journal::recover`] goes on from it.
    Corrupted,
    /// A charge that is not above the one before it.
    Backwards,
    /// Written or erased words do not read back.
    Worn,
}

impl<E: fmt::Display> fmt::Display for JournalError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flash(e) => return write!(f, "the flash failed: {e}"),
            Self::Geometry => "the journal's region must be two or more whole sectors",
            Self::Blank => "there is no journal: it was not provisioned, or it was erased",
            Self::Occupied => "a region that is to be provisioned must be erased",
            Self::OtherConfiguration => "the journal belongs to another configuration, or to an earlier version",
            Self::Budget => "the budget must be at most 2^31 steps",
            Self::Corrupted => "the journal is damaged: charges may be missing",
            Self::Backwards => "a charge must be above the one before it",
            Self::Worn => "the journal's flash does not keep what is written",
        })
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for JournalError<E> {}

/// The charges of one run, in a region of flash that is the journal's alone.
#[derive(Debug)]
pub struct Journal<F> {
    flash: F,
    run: Configuration,
    /// Slots of the region.
    places: NonZeroU32,
    /// Number of the next slot to write.
    next: u32,
    newest: Payment,
}

#[derive(Clone, Copy, Debug)]
struct Payment {
    paid: u32,
    /// The bits of an f64 from 0: they are in the order of the numbers, and comparing them takes no floating point.
    divergence: u64,
}

/// The content of a slot.
enum Slot {
    Blank,
    /// A charge, its number, and whether all copies are whole.
    Whole(u32, Payment, bool),
    /// No copy is whole, some are blank.
    Torn,
    /// No copy is whole or blank.
    Damaged,
    OtherConfiguration,
}

impl<F: NorFlash> Journal<F> {
    /// Slots of a sector.
    const SLOTS: u32 = {
        assert!(block::fits::<F>(), "words of flash must divide 32 bytes");
        assert!(
            F::ERASE_SIZE >= 512 && F::ERASE_SIZE % block::BYTES as usize == 0,
            "sectors of flash must be 512 bytes or more"
        );
        F::ERASE_SIZE as u32 / SLOT
    };

    /// Begins a journal with nothing paid, in a region that the caller has erased, in a call that came back (and that of
    /// the snapshots likewise). Once in a run, never because opening failed: [`FirstBoot`] says why.
    ///
    /// # Errors
    ///
    /// The region is not erased, does not fit, or does not keep what is written.
    pub fn provision(flash: F, run: Configuration, _: FirstBoot) -> Result<Self, JournalError<F::Error>> {
        let mut journal = Self::over(flash, run)?;
        for place in 0..journal.places.get() {
            if !matches!(journal.slot(place), Slot::Blank) {
                return Err(JournalError::Occupied);
            }
        }
        journal.append(journal.newest)?;
        Ok(journal)
    }

    /// Opens the journal of a run after a restart.
    ///
    /// # Errors
    ///
    /// There is none, it is another configuration's, or it is damaged so that charges may be missing: nothing may be
    /// released.
    pub fn open(flash: F, run: Configuration) -> Result<Self, JournalError<F::Error>> {
        let mut journal = Self::over(flash, run)?;
        journal.find()?;
        Ok(journal)
    }

    /// Opens a journal as [`Journal::open`] does; if it is damaged ([`JournalError::Corrupted`]), as if every charge that the damage may hide had
    /// taken `most`: the most steps that were reserved at a time, and the divergence of a filter's dearest step. It over-counts and never
    /// under-counts if no charge took more. With `u32::MAX` steps, or if no charge is left to count from, the whole budget is charged. What is
    /// charged is persisted, in a sector that has not the newest charge left; the other sectors are not erased unless no charge is left.
    ///
    /// *Why.* The slot of the newest charge that is whole, number `n` in the sector that begins with `f`, was not used again. So no slot was
    /// written with a number from `f + slots` on, and the lost charges have numbers between: fewer than `f + slots − n`, one charge each.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`] but for the damage; or no sector keeps what is written.
    pub fn recover(flash: F, run: Configuration, most: Allowance) -> Result<Self, JournalError<F::Error>> {
        let mut journal = Self::over(flash, run)?;
        match journal.find() {
            Err(JournalError::Corrupted) => {}
            found => return found.map(|()| journal),
        }
        let (sectors, turn) = (journal.places.get() / Self::SLOTS, journal.places.get());
        let (first, others) = match journal.newest_whole()?.0 {
            Some((number, payment, _)) => {
                let first = number - number % Self::SLOTS;
                journal.newest = journal.over_counted(payment, turn - number % Self::SLOTS - 1, most);
                // Numbers above all that may be hidden, in any sector but this one.
                (first.checked_add(turn).ok_or(JournalError::Worn)?, 1..sectors)
            }
            None => {
                journal.newest = journal.all();
                for sector in 0..sectors {
                    let at = sector * F::ERASE_SIZE as u32;
                    journal.flash.erase(at, at + F::ERASE_SIZE as u32).map_err(JournalError::Flash)?;
                }
                (0, 0..sectors)
            }
        };
        let mut result = Err(JournalError::Worn);
        for sector in others {
            let begun = sector.checked_mul(Self::SLOTS).and_then(|ahead| first.checked_add(ahead));
            let begun = begun.filter(|begun| begun.checked_add(Self::SLOTS).is_some()).ok_or(JournalError::Worn)?;
            result = journal.begin(begun);
            if result.is_ok() {
                if first != 0 {
                    journal.close(first - turn + Self::SLOTS - 1);
                }
                journal.next = begun + 1;
                break;
            }
        }
        result.map(|()| journal)
    }

    /// A payment and so many charges of at most `most` after it.
    fn over_counted(&self, payment: Payment, charges: u32, most: Allowance) -> Payment {
        let (steps, divergence) = most.times(u64::from(charges));
        let paid = payment.paid.saturating_add(steps);
        match self.run.order {
            0 if paid >= self.run.budget => self.all(),
            0 => Payment { paid, divergence: 0 },
            // What is no divergence counts as all.
            _ if divergence.is_nan() || divergence < 0.0 || steps == u32::MAX => self.all(),
            _ => Payment { paid, divergence: add_up(f64::from_bits(payment.divergence), divergence).to_bits() },
        }
    }

    /// The whole budget.
    fn all(&self) -> Payment {
        match self.run.order {
            0 => Payment { paid: self.run.budget, divergence: 0 },
            _ => Payment { paid: u32::MAX, divergence: f64::INFINITY.to_bits() },
        }
    }

    /// The newest slot that is whole, and whether everything else is blank.
    #[allow(clippy::type_complexity)] // A slot's number, payment and certainty.
    fn newest_whole(&mut self) -> Result<(Option<(u32, Payment, bool)>, bool), JournalError<F::Error>> {
        let (mut found, mut blank) = (None, true);
        for place in 0..self.places.get() {
            match self.slot(place) {
                Slot::Blank => {}
                Slot::OtherConfiguration => return Err(JournalError::OtherConfiguration),
                Slot::Whole(number, payment, certain) => {
                    if found.is_none_or(|(newest, _, _)| newest < number) {
                        found = Some((number, payment, certain));
                    }
                }
                Slot::Torn | Slot::Damaged => blank = false,
            }
        }
        Ok((found, blank))
    }

    /// Finds the newest charge, and where the next one goes.
    fn find(&mut self) -> Result<(), JournalError<F::Error>> {
        let (found, blank) = self.newest_whole()?;
        let (newest, payment, mut certain) =
            found.ok_or(if blank { JournalError::Blank } else { JournalError::Corrupted })?;
        let first = newest - newest % Self::SLOTS;
        let end = first.checked_add(Self::SLOTS).ok_or(JournalError::Corrupted)?;
        (self.newest, self.next) = (payment, newest + 1);
        // After the newest there is only what a power cut may leave; another sector has not taken over.
        for number in self.next..end {
            let may_be_paid = number + 1 < end;
            match self.slot(number) {
                Slot::Blank => {}
                Slot::Torn if !may_be_paid => {}
                Slot::Torn => (self.next, certain) = (number + 1, false),
                // A cut write that reads as whole now and did not before.
                Slot::Whole(_, payment, _) if may_be_paid => {
                    (self.newest, self.next, certain) = (payment, number + 1, false);
                }
                _ => return Err(JournalError::Corrupted),
            }
        }
        if newest + 1 == end {
            return Err(JournalError::Corrupted);
        }
        if !certain {
            self.append(self.newest)?;
        }
        self.close_before(first);
        Ok(())
    }

    fn over(flash: F, run: Configuration) -> Result<Self, JournalError<F::Error>> {
        if !run.fits() {
            return Err(JournalError::Budget);
        }
        let places = u32::try_from(flash.capacity()).map_or(0, |bytes| bytes / F::ERASE_SIZE as u32 * Self::SLOTS);
        match NonZeroU32::new(places) {
            Some(places) if flash.capacity().is_multiple_of(F::ERASE_SIZE) && places.get() >= 2 * Self::SLOTS => {
                Ok(Self { flash, run, places, next: 0, newest: Payment { paid: 0, divergence: 0 } })
            }
            _ => Err(JournalError::Geometry),
        }
    }

    /// Returns the persisted record, from which a ledger or a filter resumes.
    #[must_use]
    pub fn record(&self) -> Record {
        let Payment { paid, divergence } = self.newest;
        self.run.record(paid, f64::from_bits(divergence))
    }

    /// Gives the flash back.
    pub fn release(self) -> F {
        self.flash
    }

    fn address(&self, number: u32) -> u32 {
        let place = number % self.places;
        place / Self::SLOTS * F::ERASE_SIZE as u32 + place % Self::SLOTS * SLOT
    }

    fn slot(&mut self, number: u32) -> Slot {
        let (at, mut whole, mut wholes, mut blanks) = (self.address(number), None, 0, 0);
        for copy in 0..COPIES {
            match block::read(&mut self.flash, at + copy * block::BYTES) {
                Block::Blank => blanks += 1,
                Block::Whole(words) => (whole, wholes) = (Some(words), wholes + 1),
                Block::Damaged => {}
            }
        }
        let Some([kind, found, low, high, divergence, divergence_high, paid]) = whole else {
            return match blanks {
                0 => Slot::Damaged,
                COPIES => Slot::Blank,
                _ => Slot::Torn,
            };
        };
        if kind == EARLIER {
            Slot::OtherConfiguration
        } else if kind != KIND || found % self.places != number % self.places {
            Slot::Damaged
        } else if [kind, found, low, high] != block::head(KIND, found, &self.run) {
            Slot::OtherConfiguration
        } else {
            let divergence = u64::from(divergence) | u64::from(divergence_high) << 32;
            Slot::Whole(found, Payment { paid, divergence }, wholes == COPIES)
        }
    }

    fn words(&self, number: u32, Payment { paid, divergence }: Payment) -> Words {
        let [kind, number, low, high] = block::head(KIND, number, &self.run);
        [kind, number, low, high, divergence as u32, (divergence >> 32) as u32, paid]
    }

    /// Writes a slot that is blank, and reads each copy back before the next.
    fn write(&mut self, number: u32, payment: Payment) -> Result<(), JournalError<F::Error>> {
        let (at, words) = (self.address(number), self.words(number, payment));
        for copy in 0..COPIES {
            let at = at + copy * block::BYTES;
            block::write(&mut self.flash, at, &words).map_err(JournalError::Flash)?;
            if block::read(&mut self.flash, at) != Block::Whole(words) {
                return Err(JournalError::Worn);
            }
        }
        Ok(())
    }

    /// Persists a charge in the next slot that takes it.
    fn append(&mut self, payment: Payment) -> Result<(), JournalError<F::Error>> {
        let mut result = Err(JournalError::Worn);
        // So many that a freshly erased sector is among them: cuts may have touched any number of slots in this one.
        for _ in 0..Self::SLOTS {
            if self.next % Self::SLOTS == Self::SLOTS - 1 {
                self.turn()?;
            }
            let number = self.next;
            // Whatever comes of it, this slot is used.
            self.next = number + 1;
            result = self.write(number, payment);
            if result.is_ok() {
                self.newest = payment;
                break;
            }
        }
        result
    }

    /// Goes on in the next sector of the ring that can be erased and written; never in the one that holds the newest charge.
    fn turn(&mut self) -> Result<(), JournalError<F::Error>> {
        let mut result = Err(JournalError::Worn);
        let mut first = self.next - self.next % Self::SLOTS;
        for _ in 1..self.places.get() / Self::SLOTS {
            // Numbers end long after any flash has worn out.
            first = first
                .checked_add(Self::SLOTS)
                .filter(|first| first.checked_add(Self::SLOTS).is_some())
                .ok_or(JournalError::Worn)?;
            result = self.begin(first);
            if result.is_ok() {
                self.close(self.next);
                self.next = first + 1;
                break;
            }
        }
        result
    }

    /// Erases the sector whose first slot has this number, and carries the newest charge into it.
    fn begin(&mut self, first: u32) -> Result<(), JournalError<F::Error>> {
        let at = self.address(first);
        self.flash.erase(at, at + F::ERASE_SIZE as u32).map_err(JournalError::Flash)?;
        for number in first..first + Self::SLOTS {
            if !matches!(self.slot(number), Slot::Blank) {
                return Err(JournalError::Worn);
            }
        }
        self.write(first, self.newest)
    }

    /// Marks the last sector before the one that begins with number `first`, where a power cut kept it from being marked.
    fn close_before(&mut self, first: u32) {
        for back in 1..self.places.get() / Self::SLOTS {
            let Some(before) = first.checked_sub(back * Self::SLOTS) else { return };
            if matches!(self.slot(before), Slot::Whole(number, _, _) if number == before) {
                return self.close(before + Self::SLOTS - 1);
            }
        }
    }

    /// Marks the sector that ends with number `last`: another has taken over. If a worn slot refuses the mark, it is only a
    /// later loss of the other sector that would go unnoticed.
    fn close(&mut self, last: u32) {
        let (at, words) = (self.address(last), self.words(last, self.newest));
        for copy in 0..COPIES {
            let at = at + copy * block::BYTES;
            if block::read(&mut self.flash, at) == Block::Blank {
                let _ = block::write(&mut self.flash, at, &words);
            }
        }
    }
}

impl<F: NorFlash> ReadStore for Journal<F> {
    fn record(&self) -> Record {
        self.record()
    }
}

impl<F: NorFlash> Store for Journal<F> {
    type Error = JournalError<F::Error>;

    fn charged_steps(&self) -> u32 {
        self.newest.paid
    }

    fn persist(&mut self, record: Record) -> Result<(), Self::Error> {
        if !self.run.takes(&record) {
            return Err(JournalError::OtherConfiguration);
        }
        let Payment { paid, divergence } = self.newest;
        let next = Payment { paid: record.paid, divergence: record.divergence.to_bits() };
        // Above the bits of infinity are those of what is negative or not a number.
        if next.paid <= paid || !(divergence..=f64::INFINITY.to_bits()).contains(&next.divergence) {
            return Err(JournalError::Backwards);
        }
        self.append(next)
    }
}
