//! Buffers of correlated noise.

use super::correlation::Correlation;
use super::word::NoiseWord;
use core::fmt;
use zeroize::optimization_barrier;

/// Buffers of a run, `[m · words]` in the caller's memory. They are wiped on creation and on drop, and are in no
/// snapshot. After a restart, a run continues with new buffers.
///
/// A step requests the words from the memory once. It continues from them only if the previous step left them.
pub struct CorrelatedState<K: Correlation, B: AsMut<[NoiseWord]>> {
    memory: B,
    book: Book<K>,
}

/// Bookkeeping of the buffers: the step that left them, and their age.
struct Book<K: Correlation> {
    /// Step that the buffers are for. `None` before the first step.
    next: Option<u32>,
    /// Multiplier of the mechanism that left the buffers.
    multiplier: f64,
    /// Number of steps since the buffers were 0.
    age: u32,
    /// Position-dependent checksum of the words that the last step left.
    left: u64,
    /// State of the first column of the inverse, and the sum of its squares.
    line: K::Line,
    variance: f64,
}

/// Buffers for one release: the words from a single request to the memory.
pub struct Buffers<'s, K: Correlation> {
    pub(super) words: &'s mut [NoiseWord],
    book: &'s mut Book<K>,
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> CorrelatedState<K, B> {
    /// Creates empty buffers in the caller's memory.
    #[must_use]
    pub fn new(memory: B) -> Self {
        let book = Book { next: None, multiplier: 0.0, age: 0, left: 0, line: K::START, variance: 0.0 };
        let mut state = Self { memory, book };
        state.buffers().wipe();
        state
    }

    /// Requests the words from the memory.
    pub(super) fn buffers(&mut self) -> Buffers<'_, K> {
        Buffers { words: self.memory.as_mut(), book: &mut self.book }
    }
}

impl<K: Correlation> Buffers<'_, K> {
    /// Returns true if the previous step left the buffers, with a mechanism of this multiplier. Words of another step,
    /// which the caller's memory may return, do not match.
    pub(super) fn follows(&self, step: u32, multiplier: f64) -> bool {
        let is_next = self.book.next == Some(step) && self.book.multiplier.to_bits() == multiplier.to_bits();
        is_next && self.book.left == self.sum()
    }

    /// Starts again from zero.
    pub(super) fn restart(&mut self, multiplier: f64) {
        self.wipe();
        let book = &mut *self.book;
        (book.multiplier, book.age, book.line, book.variance) = (multiplier, 0, K::START, 0.0);
    }

    /// Marks the buffers as left by this step. Until then they belong to no step.
    pub(super) fn finished(&mut self, step: u32) {
        self.book.left = self.sum();
        (self.book.next, self.book.age) = (step.checked_add(1), self.book.age.saturating_add(1));
    }

    /// Marks the buffers as in use. If the step does not finish, the next step starts from zero.
    pub(super) fn open(&mut self) {
        self.book.next = None;
    }

    /// Returns the number of steps since the buffers were 0.
    pub(super) fn age(&self) -> u32 {
        self.book.age
    }

    /// Adds the next entry of the inverse to the variance of w relative to z.
    pub(super) fn grow(&mut self, correlation: &K) {
        let entry = correlation.backward(&mut self.book.line, f64::from(u8::from(self.book.age == 0)));
        self.book.variance += entry * entry;
    }

    /// Returns the variance of w divided by that of z.
    pub(super) fn variance(&self) -> f64 {
        self.book.variance
    }

    /// Polynomial hash of the words, which detects an exchange of words. Code that could choose words cannot read them.
    fn sum(&self) -> u64 {
        self.words.iter().fold(1, |sum: u64, word| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word.0 as u64))
    }

    fn wipe(&mut self) {
        self.book.next = None;
        self.words.iter_mut().for_each(|word| *word = NoiseWord::ZERO);
        optimization_barrier(self.words);
    }
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> Drop for CorrelatedState<K, B> {
    fn drop(&mut self) {
        self.buffers().wipe();
    }
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> fmt::Debug for CorrelatedState<K, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CorrelatedState")
    }
}
