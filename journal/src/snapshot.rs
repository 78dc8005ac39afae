//! Released parameters and state in NOR flash, so that training continues after a restart. A region has two halves,
//! written in turn.
//!
//! # Privacy
//!
//! Parameters and the state of filters, thresholds and optimizers are functions of released values. So a snapshot is as
//! secret as the model. An old or forged snapshot costs no privacy: the guarantee holds for any parameters at the start
//! of a step. A snapshot must not contain the key, or the sum of an open step.
//!
//! If no snapshot has the release of a step when power fails, the step is lost. The journal counts it, and the run
//! continues from the newest snapshot with the next step number. This also holds for the steps between two snapshots.
//!
//! # Format
//!
//! A half is erased, and its words are written and read back. Then its head and a mirror of the head are written. Both
//! are blocks with the kind, the charged steps, the fingerprint, the number of words, their CRC-32 and that of the
//! state's shape. A power cut leaves a half without a head, and the other half whole.
//!
//! An interrupted head may read as whole at one restart and not at the next. Once its mirror was begun the head is
//! certain. While the mirror is blank it may be uncertain. Such a snapshot is used too. But if the other half is whole,
//! the next snapshot overwrites the uncertain half. So a saved snapshot remains until the next is saved.
//!
//! # Cost
//!
//! Each snapshot erases one half, in turn. 56 bytes of RAM, plus the flash's driver.

use crate::Configuration;
use crate::block::{self, Block};
use core::fmt;
use damper_core::state::{SaveState, StateField};
use embedded_storage::nor_flash::NorFlash;

/// Bytes of the head and its mirror.
const HEAD: u32 = 2 * block::BYTES;
/// "DJS2": the head of a snapshot of the second format, whose fingerprint is computed from the step.
const KIND: u32 = u32::from_le_bytes(*b"DJS2");
/// "DJS1": the head of a snapshot of the first format.
const EARLIER: u32 = u32::from_le_bytes(*b"DJS1");
const WORDS: usize = block::BYTES as usize / 4;

/// An error of snapshots: there is none to continue from, or a snapshot was not saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SnapshotError<E> {
    /// The flash failed.
    Flash(E),
    /// The region is not two or more whole sectors, an even number of them.
    Geometry,
    /// The region has a snapshot of another configuration or of an earlier version.
    OtherConfiguration,
    /// A snapshot is newer than the ledger, so the ledger was reset to an older image.
    LedgerBehind,
    /// A snapshot is not newer than the previous snapshot.
    Backwards,
    /// The state has more words than a half.
    TooLong,
    /// The newest snapshot has another shape of state, or there is none.
    Length,
    /// Written words do not read back.
    Worn,
}

impl<E: fmt::Display> fmt::Display for SnapshotError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flash(e) => return write!(f, "the flash failed: {e}"),
            Self::Geometry => "the region of snapshots must be an even number of whole sectors",
            Self::OtherConfiguration => "the snapshot belongs to another configuration, or to an earlier version",
            Self::LedgerBehind => "the snapshot is newer than the ledger, which was put back",
            Self::Backwards => "a snapshot must be newer than the one before it",
            Self::TooLong => "the snapshot does not fit its half of the region",
            Self::Length => "the snapshot is of a state of another shape",
            Self::Worn => "the snapshot's flash does not keep what is written",
        })
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for SnapshotError<E> {}

/// The newest snapshots of one run, in an exclusive region of flash.
#[derive(Debug)]
pub struct Snapshots<F> {
    flash: F,
    run: Configuration,
    newest: Option<Head>,
    /// The half for the next snapshot.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    /// The start of its half.
    at: u32,
    paid: u32,
    words: u32,
    crc: u32,
    /// The CRC-32 of the state's shape.
    shape: u32,
}

impl<F: NorFlash> Snapshots<F> {
    const FITS: () = assert!(
        block::fits::<F>() && F::ERASE_SIZE >= 64 && F::ERASE_SIZE % block::BYTES as usize == 0,
        "words of flash must divide 32 bytes, and sectors be 64 bytes or more"
    );

    /// Finds the newest whole snapshot of a run with `paid` charged steps, as stated by the ledger's store. A blank
    /// region has no snapshot, and the run continues from its initial parameters.
    ///
    /// # Errors
    ///
    /// The region does not fit, or it has a snapshot of another configuration or one newer than the ledger.
    pub fn open(flash: F, run: Configuration, paid: u32) -> Result<Self, SnapshotError<F::Error>> {
        let () = Self::FITS;
        let capacity = flash.capacity();
        if capacity == 0 || !capacity.is_multiple_of(2 * F::ERASE_SIZE) || u32::try_from(capacity).is_err() {
            return Err(SnapshotError::Geometry);
        }
        let mut snapshots = Self { flash, run, newest: None, next: 0 };
        let mut wholes = 0;
        for at in [0, snapshots.half()] {
            let Some(head) = snapshots.head(at)? else { continue };
            if head.paid > paid {
                return Err(SnapshotError::LedgerBehind);
            }
            if snapshots.is_whole(&head) {
                wholes += 1;
                if snapshots.newest.is_none_or(|newest| newest.paid < head.paid) {
                    snapshots.newest = Some(head);
                }
            }
        }
        if let Some(Head { at, .. }) = snapshots.newest {
            let doubtful = block::read(&mut snapshots.flash, at + block::BYTES) == Block::Blank;
            snapshots.next = if doubtful && wholes == 2 { at } else { snapshots.half() - at };
        }
        Ok(snapshots)
    }

    /// Returns the number of charged steps when the newest snapshot was taken.
    #[must_use]
    pub fn newest(&self) -> Option<u32> {
        self.newest.map(|head| head.paid)
    }

    /// Loads the newest snapshot into `memory`, which must have the saved shape.
    ///
    /// # Errors
    ///
    /// - The region has no snapshot, or its state has another shape. `memory` is unchanged.
    /// - The flash has changed since it was opened. `memory` must not be used.
    pub fn load(&mut self, memory: &mut dyn SaveState) -> Result<(), SnapshotError<F::Error>> {
        let (words, shape) = shape_of(memory);
        let head =
            self.newest.filter(|head| head.words == words && head.shape == shape).ok_or(SnapshotError::Length)?;
        let mut reader = Reader::new(&mut self.flash, &head);
        memory.each(&mut |field| match field {
            StateField::Owner(_) => {}
            StateField::Floats(floats) => floats.iter_mut().for_each(|float| *float = f32::from_bits(reader.word())),
            StateField::Double(double) => *double = reader.double(),
            StateField::Count(count) => *count = reader.word(),
        });
        if reader.is_whole(&head) { Ok(()) } else { Err(SnapshotError::Worn) }
    }

    /// Saves `memory` as of `paid` steps: parameters and the step's state, such as `(&mut params, &mut state)`. When it
    /// returns, they survive a power cut. Until then the previous snapshot does.
    ///
    /// # Errors
    ///
    /// The snapshot is not newer, does not fit, or the flash failed. The previous snapshot is still there.
    pub fn save(&mut self, paid: u32, memory: &mut dyn SaveState) -> Result<(), SnapshotError<F::Error>> {
        if self.newest.is_some_and(|newest| paid <= newest.paid) {
            return Err(SnapshotError::Backwards);
        }
        let (half, at) = (self.half(), self.next);
        self.flash.erase(at, at + half).map_err(SnapshotError::Flash)?;
        let mut writer = Writer {
            flash: &mut self.flash,
            to: at + HEAD,
            end: at + half,
            chunk: [0; WORDS],
            head: Head { at, paid, words: 0, crc: !0, shape: shape_of(memory).1 },
            failed: Ok(()),
        };
        memory.each(&mut |field| match field {
            StateField::Owner(_) => {}
            StateField::Floats(floats) => floats.iter().for_each(|float| writer.put(float.to_bits())),
            StateField::Double(double) => {
                writer.put(double.to_bits() as u32);
                writer.put((double.to_bits() >> 32) as u32);
            }
            StateField::Count(count) => writer.put(*count),
        });
        let head = writer.finish()?;
        if !self.is_whole(&head) {
            return Err(SnapshotError::Worn);
        }
        self.write_head(&head, 0)?;
        self.write_head(&head, 1)?;
        (self.newest, self.next) = (Some(head), half - at);
        Ok(())
    }

    /// Returns the flash.
    pub fn release(self) -> F {
        self.flash
    }

    fn half(&self) -> u32 {
        self.flash.capacity() as u32 / 2
    }

    /// Writes a head (0) or its mirror (1).
    fn write_head(&mut self, head: &Head, copy: u32) -> Result<(), SnapshotError<F::Error>> {
        let [kind, paid, low, high] = block::head(KIND, head.paid, &self.run);
        let words = [kind, paid, low, high, head.words, head.crc, head.shape];
        let at = head.at + copy * block::BYTES;
        block::write(&mut self.flash, at, &words).map_err(SnapshotError::Flash)?;
        if block::read(&mut self.flash, at) == Block::Whole(words) { Ok(()) } else { Err(SnapshotError::Worn) }
    }

    /// The head of the half that begins at `at`, if it has one.
    fn head(&mut self, at: u32) -> Result<Option<Head>, SnapshotError<F::Error>> {
        let (block, mirror) = (block::read(&mut self.flash, at), block::read(&mut self.flash, at + block::BYTES));
        let ((Block::Whole(words), _) | (_, Block::Whole(words))) = (block, mirror) else {
            return Ok(None);
        };
        let [kind, paid, low, high, words, crc, shape] = words;
        if kind == EARLIER {
            return Err(SnapshotError::OtherConfiguration);
        }
        if kind != KIND {
            return Ok(None);
        }
        if [kind, paid, low, high] != block::head(KIND, paid, &self.run) {
            return Err(SnapshotError::OtherConfiguration);
        }
        Ok(Some(Head { at, paid, words, crc, shape }))
    }

    /// Returns true if a snapshot's words are unchanged.
    fn is_whole(&mut self, head: &Head) -> bool {
        let room = (self.half() - HEAD) / 4;
        if head.words > room {
            return false;
        }
        let mut reader = Reader::new(&mut self.flash, head);
        (0..head.words).for_each(|_| _ = reader.word());
        reader.is_whole(head)
    }
}

/// Returns the number of flash words of a state, and a CRC-32 of its shape: owners' names, and kinds and numbers of
/// values.
fn shape_of(memory: &mut dyn SaveState) -> (u32, u32) {
    let (mut words, mut shape) = (0u32, !0);
    memory.each(&mut |field| {
        let (kind, taken) = match &field {
            StateField::Owner(name) => {
                shape = name.bytes().fold(shape, |crc, byte| block::crc_of(crc, byte.into()));
                (0, 0)
            }
            StateField::Floats(floats) => (1, u32::try_from(floats.len()).unwrap_or(u32::MAX)),
            StateField::Double(_) => (2, 2),
            StateField::Count(_) => (3, 1),
        };
        shape = block::crc_of(block::crc_of(shape, kind), taken);
        words = words.saturating_add(taken);
    });
    (words, shape)
}

/// Writes the words of a snapshot, a chunk at a time.
struct Writer<'a, F: NorFlash> {
    flash: &'a mut F,
    to: u32,
    end: u32,
    chunk: [u32; WORDS],
    head: Head,
    failed: Result<(), SnapshotError<F::Error>>,
}

impl<F: NorFlash> Writer<'_, F> {
    fn put(&mut self, word: u32) {
        let place = self.head.words as usize % WORDS;
        if let Some(to) = self.chunk.get_mut(place) {
            *to = word;
        }
        self.head.crc = block::crc_of(self.head.crc, word);
        self.head.words = self.head.words.saturating_add(1);
        if place + 1 == WORDS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_ok() {
            self.failed = if self.to >= self.end {
                Err(SnapshotError::TooLong)
            } else {
                let bytes = self.chunk.map(u32::to_le_bytes);
                self.flash.write(self.to, bytes.as_flattened()).map_err(SnapshotError::Flash)
            };
            self.to = self.to.saturating_add(block::BYTES);
        }
        self.chunk = [0; WORDS];
    }

    /// The head of the written words.
    fn finish(mut self) -> Result<Head, SnapshotError<F::Error>> {
        if !self.head.words.is_multiple_of(WORDS as u32) {
            self.flush();
        }
        self.failed.map(|()| self.head)
    }
}

/// Reads the words of a snapshot.
struct Reader<'a, F> {
    flash: &'a mut F,
    from: u32,
    chunk: [u32; WORDS],
    read: u32,
    crc: u32,
    failed: bool,
}

impl<'a, F: NorFlash> Reader<'a, F> {
    fn new(flash: &'a mut F, head: &Head) -> Self {
        Self { flash, from: head.at + HEAD, chunk: [0; WORDS], read: 0, crc: !0, failed: false }
    }

    /// Reads the next word. After a failure the word is arbitrary.
    fn word(&mut self) -> u32 {
        let place = self.read as usize % WORDS;
        if place == 0 && !self.failed {
            let mut bytes = [[0; 4]; WORDS];
            self.failed = self.flash.read(self.from, bytes.as_flattened_mut()).is_err();
            self.chunk = bytes.map(u32::from_le_bytes);
            self.from = self.from.saturating_add(block::BYTES);
        }
        let word = self.chunk.get(place).copied().unwrap_or_default();
        self.crc = block::crc_of(self.crc, word);
        self.read = self.read.saturating_add(1);
        word
    }

    fn double(&mut self) -> f64 {
        let low = u64::from(self.word());
        f64::from_bits(low | u64::from(self.word()) << 32)
    }

    /// Returns true if all words were read and match this head.
    fn is_whole(&self, head: &Head) -> bool {
        !self.failed && self.read == head.words && self.crc == head.crc
    }
}
