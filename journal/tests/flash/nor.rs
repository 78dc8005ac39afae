//! A simulated NOR flash chip that checks the trait's rules and loses power at chosen events.
//!
//! Writing changes bits from 1 to 0, and erasing a sector sets them to 1. A word is written once between erases,
//! aligned. Any other use is a bug of the caller and panics. There is an event before every word and in the middle of
//! it, and before every erase of a sector and in the middle of it. The power fails at a chosen event, and every later
//! call fails until it returns. An interrupted word or sector keeps any mix of old and new bits, some of which read
//! differently each time.
#![allow(dead_code)] // Each test binary uses a part.

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    NoPower,
    /// A word that a power cut touched does not accept data.
    Refused,
    /// A word that error correction cannot correct. The driver translates the chip's fault to this error.
    Uncorrectable,
}

/// The result of error correction of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Right,
    /// Correctable at some reads.
    Doubtful,
    Wrong,
}

/// The effect of reading an uncorrectable word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecc {
    /// The chip has none.
    None,
    /// The driver returns an error.
    Error,
    /// The driver ignores the chip's fault, which resets the device: a panic.
    Fault,
}

impl NorFlashError for Failed {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Erased,
    Written,
    /// Its write was interrupted.
    Touched,
    /// Its erase was interrupted.
    HalfErased,
}

#[derive(Clone)]
pub struct Chip {
    pub bytes: Vec<u8>,
    /// Bits that read differently each time.
    unstable: Vec<u8>,
    words: Vec<Word>,
    checks: Vec<Check>,
    word: usize,
    sector: usize,
    random: u64,
    /// Events until power fails.
    power: Option<u64>,
    pub dead: bool,
    pub events: u64,
    pub writes: u64,
    pub erases: Vec<u32>,
    /// Sectors in which a bit stays 0.
    pub worn: Vec<usize>,
    /// Bits that stay 1, by byte. The chip does not report them.
    pub stuck: HashMap<usize, u8>,
    /// True if a word that a cut touched is refused (flash with error correction). Otherwise it accepts data as far as
    /// possible.
    pub refuses_touched: bool,
    /// The effect of error correction, if any. Touched words are then refused.
    pub ecc: Ecc,
    /// Bytes of a page. An interrupted write also damages another word of its page, an interrupted erase a word of an
    /// adjacent sector. 0: no such damage.
    pub disturbed_page: usize,
}

impl Chip {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Counts an event. Returns true if the power fails at it.
    fn fails(&mut self) -> bool {
        self.events += 1;
        match &mut self.power {
            Some(0) => self.dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.dead
    }

    fn program(&mut self, at: usize, data: &[u8]) -> Result<(), Failed> {
        let word = at / self.word;
        match self.words[word] {
            Word::Erased => {}
            Word::Written => panic!("the word at {at} was written twice"),
            Word::HalfErased => panic!("the word at {at} was written without a whole erase"),
            Word::Touched if self.refuses_touched || self.ecc != Ecc::None => return Err(Failed::Refused),
            Word::Touched => {}
        }
        if self.fails() {
            return Err(Failed::NoPower);
        }
        let cut = self.fails();
        let style = if cut { self.next() % 6 } else { 1 };
        for (byte, data) in (at..).zip(data) {
            let wanted = self.bytes[byte] & !data & !self.stuck.get(&byte).copied().unwrap_or(0);
            let (done, doubtful) = match style {
                0 => (0, 0),
                1 => (wanted, 0),
                2 => (wanted & self.next() as u8, 0),
                3 => (wanted & self.next() as u8, wanted & self.next() as u8),
                // All bits except one, which is uncertain.
                _ if byte == at => (wanted, wanted & wanted.wrapping_neg()),
                _ => (wanted, 0),
            };
            self.bytes[byte] &= !done;
            // An uncertain bit stays uncertain if the new data has a 1 there.
            self.unstable[byte] = self.unstable[byte] & data | doubtful;
        }
        self.words[word] = if cut { Word::Touched } else { Word::Written };
        if cut && self.ecc != Ecc::None && style > 1 {
            // An incomplete check.
            self.checks[word] = if style % 2 == 0 { Check::Wrong } else { Check::Doubtful };
        }
        if cut && self.disturbed_page > 0 {
            let page = at / self.disturbed_page * self.disturbed_page;
            self.disturb(page..page + self.disturbed_page, word);
        }
        self.writes += 1;
        if cut { Err(Failed::NoPower) } else { Ok(()) }
    }

    /// Damages a word among these bytes, but not `cut`. It prefers written words.
    fn disturb(&mut self, bytes: std::ops::Range<usize>, cut: usize) {
        let words = bytes.start / self.word..bytes.end / self.word;
        let held: Vec<usize> = words.clone().filter(|word| self.words[*word] != Word::Erased && *word != cut).collect();
        let word = match self.next() as usize {
            random if held.is_empty() || random.is_multiple_of(8) => words.start + (random >> 8) % words.len(),
            random => held[(random >> 8) % held.len()],
        };
        if word == cut {
            return;
        }
        if self.ecc != Ecc::None {
            self.checks[word] = Check::Wrong;
            self.words[word] = Word::Touched;
        }
        let random = self.next();
        let lost = (0..self.word * 8).map(|bit| (bit + random as usize) % (self.word * 8));
        let lost = lost.map(|bit| (word * self.word + bit / 8, 1u8 << (bit % 8)));
        if let Some((byte, bit)) = lost.into_iter().find(|(byte, bit)| self.bytes[*byte] & bit != 0) {
            self.bytes[byte] &= !bit;
        }
    }

    fn wipe(&mut self, from: usize) -> Result<(), Failed> {
        if self.fails() {
            return Err(Failed::NoPower);
        }
        let cut = self.fails();
        let style = if cut { self.next() % 3 } else { 0 };
        let sector = from / self.sector;
        for byte in from..from + self.sector {
            let (kept, doubtful) = match style {
                0 => (0, 0),
                1 => (self.next() as u8, 0),
                _ => (self.next() as u8 & self.next() as u8, self.next() as u8 & self.next() as u8),
            };
            self.bytes[byte] |= !kept;
            self.unstable[byte] = doubtful;
        }
        for word in from / self.word..(from + self.sector) / self.word {
            self.checks[word] = match (self.ecc, style, self.next() % 3) {
                (Ecc::None, ..) | (_, 0, _) | (.., 0) => Check::Right,
                (.., 1) => Check::Doubtful,
                _ => Check::Wrong,
            };
        }
        if cut && self.disturbed_page > 0 {
            let end = self.bytes.len();
            let beside = if from + self.sector < end { from + self.sector } else { from - self.sector };
            self.disturb(beside..beside + self.sector, usize::MAX);
        }
        self.words[from / self.word..][..self.sector / self.word].fill(if cut {
            Word::HalfErased
        } else {
            Word::Erased
        });
        self.erases[sector] += 1;
        if self.worn.contains(&sector) {
            self.bytes[from + self.sector / 2] = 0xfe;
        }
        if cut { Err(Failed::NoPower) } else { Ok(()) }
    }
}

/// A part of a chip with words of `W` bytes and sectors of `E`.
#[derive(Clone)]
pub struct Flash<const W: usize, const E: usize> {
    pub chip: Rc<RefCell<Chip>>,
    from: usize,
    len: usize,
}

impl<const W: usize, const E: usize> std::fmt::Debug for Flash<W, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "words of {W}, sectors of {E}")
    }
}

impl<const W: usize, const E: usize> Flash<W, E> {
    /// An erased chip.
    pub fn erased(sectors: usize, seed: u64) -> Self {
        let len = sectors * E;
        let chip = Chip {
            bytes: vec![0xff; len],
            unstable: vec![0; len],
            words: vec![Word::Erased; len / W],
            checks: vec![Check::Right; len / W],
            word: W,
            sector: E,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            power: None,
            dead: false,
            events: 0,
            writes: 0,
            erases: vec![0; sectors],
            worn: Vec::new(),
            stuck: HashMap::new(),
            refuses_touched: false,
            ecc: Ecc::None,
            disturbed_page: 0,
        };
        Self { chip: Rc::new(RefCell::new(chip)), from: 0, len }
    }

    /// Sectors `from..to` of this part.
    pub fn part(&self, from: usize, to: usize) -> Self {
        assert!(from < to && to * E <= self.len);
        Self { chip: self.chip.clone(), from: self.from + from * E, len: (to - from) * E }
    }

    /// A separate chip with the same content.
    pub fn copied(&self) -> Self {
        Self { chip: Rc::new(RefCell::new(self.chip.borrow().clone())), ..*self }
    }

    /// Restores power, which fails again after this many events.
    pub fn power_on(&self, fails_after: Option<u64>) {
        let mut chip = self.chip.borrow_mut();
        (chip.dead, chip.power) = (false, fails_after);
    }

    pub fn is_dead(&self) -> bool {
        self.chip.borrow().dead
    }

    pub fn events(&self) -> u64 {
        self.chip.borrow().events
    }

    /// Changes the content directly, without the rules of writing.
    pub fn corrupt(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.chip.borrow_mut().bytes[self.from..self.from + self.len]);
    }
}

impl<const W: usize, const E: usize> ErrorType for Flash<W, E> {
    type Error = Failed;
}

impl<const W: usize, const E: usize> ReadNorFlash for Flash<W, E> {
    const READ_SIZE: usize = if W < 4 { W } else { 4 };

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Failed> {
        let offset = offset as usize;
        assert!(offset.is_multiple_of(Self::READ_SIZE) && bytes.len().is_multiple_of(Self::READ_SIZE));
        assert!(offset + bytes.len() <= self.len, "a read beyond the region");
        let chip = &mut *self.chip.borrow_mut();
        if chip.dead {
            return Err(Failed::NoPower);
        }
        for word in (self.from + offset) / W..(self.from + offset + bytes.len()).div_ceil(W) {
            if chip.checks[word] == Check::Wrong
                || chip.checks[word] == Check::Doubtful && chip.next().is_multiple_of(2)
            {
                assert!(chip.ecc != Ecc::Fault, "a fault: the device resets");
                return Err(Failed::Uncorrectable);
            }
        }
        for (place, byte) in (self.from + offset..).zip(bytes) {
            let random = chip.next() as u8;
            *byte = chip.bytes[place] ^ (chip.unstable[place] & random);
        }
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.len
    }
}

impl<const W: usize, const E: usize> NorFlash for Flash<W, E> {
    const WRITE_SIZE: usize = W;
    const ERASE_SIZE: usize = E;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        let (from, to) = (from as usize, to as usize);
        assert!(from % E == 0 && to % E == 0 && from < to && to <= self.len, "a wrong erase");
        let chip = &mut *self.chip.borrow_mut();
        if chip.dead {
            return Err(Failed::NoPower);
        }
        (from..to).step_by(E).try_for_each(|at| chip.wipe(self.from + at))
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failed> {
        let offset = offset as usize;
        assert!(
            offset.is_multiple_of(W) && bytes.len().is_multiple_of(W) && offset + bytes.len() <= self.len,
            "a wrong write"
        );
        let chip = &mut *self.chip.borrow_mut();
        if chip.dead {
            return Err(Failed::NoPower);
        }
        bytes.chunks(W).zip((self.from + offset..).step_by(W)).try_for_each(|(word, at)| chip.program(at, word))
    }
}
