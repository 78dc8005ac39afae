//! A ledger's charges in NOR flash: append-only, in three copies, over a ring of erase sectors.
//!
//! # Format
//!
//! A slot is three copies of a block of 32 bytes. Slots are numbered from provisioning on. Number `n` is at position
//! `n mod slots`, so an entry identifies its position. Each sector has
//!
//! ```text
//! slot 0         the newest charge when the sector was begun: the sector is whole and carries on
//! slots 1 ..     charges
//! last slot      written when another sector has taken over: what is newest is no longer here
//! ```
//!
//! A charge is written copy by copy. Each copy is read back before the next is begun. After the third the charge is
//! persisted. So a restart can distinguish slots:
//!
//! | copies | it was | and is |
//! | --- | --- | --- |
//! | any is whole | at least begun | charged |
//! | none is whole, one is blank | interrupted early, or damaged while unused | skipped: it released nothing |
//! | none is whole, none is blank | persisted, and damaged three times | an error if it may be the newest |
//!
//! # Power cuts
//!
//! If the power fails during a write, the word may read as any mix of old and new bits, differently each time, or as
//! blank. Then it may be written once more with its bits still uncertain. Three copies suffice. The **first** may be in
//! words that an earlier cut touched. The **second** is begun after the first was read back, and so is the third. By
//! then the slot is not blank and is not reused, so both are in untouched words. A begun **third** copy proves that the
//! second is certain. A restart that finds fewer than three copies writes the charge to the next slot before it reports
//! it, so no result depends on an uncertain word.
//!
//! If a flash refuses words that a cut touched, the next slot is used. An unreadable word counts as damaged. Only a
//! sector without the newest charge is erased, so an interrupted erase loses no charge, for any content it leaves.
//!
//! # Requirements on a driver
//!
//! - **Write and erase**: return `Ok` only when the words are in the cells, not in a buffer. Words that a cut touched
//!   may be accepted or refused.
//! - **Read**: return an error for a word that error correction (ECC) cannot correct. On many parts (STM32 L4, G4 and
//!   H7 among them) such a read raises a fault or a non-maskable interrupt instead, and a cut leaves such words.
//!   [`Journal::open`] reads the whole region, so a fault that resets the device resets it at every start. So mask or
//!   handle the fault: on a Cortex-M7, read with `FAULTMASK` and `BFHFNMIGN` set. On an STM32L4, use an NMI handler
//!   that clears `ECCD`. If the flash controller's flag is set after a read, clear it and return an error.
//! - **No stale reads**: after a write or an erase, bypass or invalidate caches. The journal reads back its writes.
//!
//! # Page disturb
//!
//! On some parts an interrupted write or erase also damages an old word in the same page or an adjacent sector. A cut
//! may so tear one copy of the newest charge and damage another. The third copy remains, and the next restart writes
//! three copies again before it reports the charge. If that restart is cut too, and the next, each may damage one more
//! copy. A charge without a copy is detected as [`JournalError::Corrupted`], and the run ends.
//!
//! # Detected damage
//!
//! Damage to one or two copies is repaired from the third. Two losses give [`JournalError::Corrupted`]: damage to all
//! copies of the newest charge, and an erased or overwritten sector that has it. A blank region gives
//! [`JournalError::Blank`]. Neither counts as an empty ledger. An older image of the region or of the current sector is
//! not detected. Its detection requires a [monotonic counter](crate::SealedJournal).
//!
//! A damaged journal does not open. The owner may call [`Journal::recover`], which charges everything that the damage
//! may hide. A journal of an earlier version gives [`JournalError::OtherConfiguration`] and is not erased. The version
//! that wrote it reads its charges, and they reduce the budget of the continued run.
//!
//! # Cost
//!
//! 96 bytes of flash per charge, and an erase every `ERASE_SIZE / 96 − 2` charges, in turn over the sectors. Opening
//! reads the region once. Words have up to 32 bytes, sectors 512 bytes or more, and a region at least two sectors. 48
//! bytes of RAM, plus the flash's driver.

use crate::block::{self, Block, Words};
use crate::{Allowance, Configuration, FirstBoot};
use core::fmt;
use core::num::NonZeroU32;
use damper_core::accounting::{ReadStore, Record, Store};
use damper_core::numerics::up::add_up;
use embedded_storage::nor_flash::NorFlash;

const COPIES: u32 = 3;
const SLOT: u32 = COPIES * block::BYTES;
/// "DJL2": a charge of the second format, whose fingerprint is computed from the step.
const KIND: u32 = u32::from_le_bytes(*b"DJL2");
/// "DJL1": a charge of the first format, whose fingerprint was computed from the caller's items.
const EARLIER: u32 = u32::from_le_bytes(*b"DJL1");

/// An error of a journal: it cannot be used, or a charge was not persisted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum JournalError<E> {
    /// The flash failed.
    Flash(E),
    /// The region is not two or more whole sectors.
    Geometry,
    /// The region is blank. On a provisioned device someone erased it, and the charges are unknown.
    Blank,
    /// A region for provisioning is not erased.
    Occupied,
    /// The journal or the ledger has another configuration, or the journal an earlier version. Nothing is erased.
    OtherConfiguration,
    /// The budget is above 2³¹ steps.
    Budget,
    /// The journal has damage that may hide charges. [`Journal::recover`] continues from it.
    Corrupted,
    /// A charge is not above the previous charge.
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

/// The charges of one run, in an exclusive region of flash.
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
    /// The bits of an f64 of at least 0. Non-negative floats order like their bits, so comparison needs no floating
    /// point.
    divergence: u64,
}

/// The content of a slot.
enum Slot {
    Blank,
    /// A charge: its number, its payment, and whether all copies are whole.
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

    /// Creates a journal without charges, in a region that the caller has erased successfully (as for the snapshots).
    /// Call it once per run, and never because opening failed. [`FirstBoot`] gives the reason.
    ///
    /// # Errors
    ///
    /// The region is not erased, does not fit, or does not keep written words.
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
    /// The journal is missing, has another configuration, or may have lost charges. Then nothing may be released.
    pub fn open(flash: F, run: Configuration) -> Result<Self, JournalError<F::Error>> {
        let mut journal = Self::over(flash, run)?;
        journal.find()?;
        Ok(journal)
    }

    /// Opens a journal as [`Journal::open`] does. If it is damaged ([`JournalError::Corrupted`]), every charge that the
    /// damage may hide counts as `most`. That is the most steps reserved at a time, and the divergence of a filter's
    /// most expensive step. The result never under-counts if no charge took more. With `u32::MAX` steps, or if no
    /// charge is left to count from, the whole budget is charged. The charge is persisted in a sector without the
    /// newest remaining charge. The other sectors are not erased unless no charge is left.
    ///
    /// *Proof.* Let the newest whole slot have number `n`, in a sector that begins with `f`. It was not reused, so no
    /// slot was written with a number of at least `f + slots`. So fewer than `f + slots − n` charges are lost.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`] except for damage, or no sector keeps written words.
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
                // Numbers above all that may be hidden, in any other sector.
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

    /// A payment and this many charges of at most `most` after it.
    fn over_counted(&self, payment: Payment, charges: u32, most: Allowance) -> Payment {
        let (steps, divergence) = most.times(u64::from(charges));
        let paid = payment.paid.saturating_add(steps);
        match self.run.order {
            0 if paid >= self.run.budget => self.all(),
            0 => Payment { paid, divergence: 0 },
            // An invalid divergence counts as the whole budget.
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

    /// The newest whole slot, and whether everything else is blank.
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

    /// Finds the newest charge, and the next slot to write.
    fn find(&mut self) -> Result<(), JournalError<F::Error>> {
        let (found, blank) = self.newest_whole()?;
        let (newest, payment, mut certain) =
            found.ok_or(if blank { JournalError::Blank } else { JournalError::Corrupted })?;
        let first = newest - newest % Self::SLOTS;
        let end = first.checked_add(Self::SLOTS).ok_or(JournalError::Corrupted)?;
        (self.newest, self.next) = (payment, newest + 1);
        // After the newest charge there may only be the traces of a power cut, because no other sector has taken over.
        for number in self.next..end {
            let may_be_paid = number + 1 < end;
            match self.slot(number) {
                Slot::Blank => {}
                Slot::Torn if !may_be_paid => {}
                Slot::Torn => (self.next, certain) = (number + 1, false),
                // An interrupted write that reads as whole now and did not before.
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

    /// Returns the flash.
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

    /// Writes a blank slot, and reads each copy back before the next.
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

    /// Persists a charge in the next slot that accepts it.
    fn append(&mut self, payment: Payment) -> Result<(), JournalError<F::Error>> {
        let mut result = Err(JournalError::Worn);
        // So many that they include a freshly erased sector: cuts may have touched any number of slots in this sector.
        for _ in 0..Self::SLOTS {
            if self.next % Self::SLOTS == Self::SLOTS - 1 {
                self.turn()?;
            }
            let number = self.next;
            // The slot counts as used, for any result.
            self.next = number + 1;
            result = self.write(number, payment);
            if result.is_ok() {
                self.newest = payment;
                break;
            }
        }
        result
    }

    /// Continues in the next sector of the ring that can be erased and written, but never in the sector with the newest
    /// charge.
    fn turn(&mut self) -> Result<(), JournalError<F::Error>> {
        let mut result = Err(JournalError::Worn);
        let mut first = self.next - self.next % Self::SLOTS;
        for _ in 1..self.places.get() / Self::SLOTS {
            // Any flash wears out long before numbers end.
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

    /// Erases the sector whose first slot has this number, and copies the newest charge into it.
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

    /// Marks the last sector before the sector that begins with number `first`, if a power cut prevented the mark.
    fn close_before(&mut self, first: u32) {
        for back in 1..self.places.get() / Self::SLOTS {
            let Some(before) = first.checked_sub(back * Self::SLOTS) else { return };
            if matches!(self.slot(before), Slot::Whole(number, _, _) if number == before) {
                return self.close(before + Self::SLOTS - 1);
            }
        }
    }

    /// Marks the sector that ends with number `last`, because another sector has taken over. If a worn slot refuses the
    /// mark, only a later loss of the other sector would not be detected.
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
        // Negative values and NaN have bits above those of infinity.
        if next.paid <= paid || !(divergence..=f64::INFINITY.to_bits()).contains(&next.divergence) {
            return Err(JournalError::Backwards);
        }
        self.append(next)
    }
}
