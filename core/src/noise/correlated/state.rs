//! The buffers of correlated noise.

use super::correlation::Correlation;
use super::word::NoiseWord;
use core::fmt;
use zeroize::optimization_barrier;

/// The buffers of a run, `[m · words]` in the caller's memory. They are wiped when they are made and when they are dropped, and are in no
/// snapshot: after a restart, a run goes on with new ones.
///
/// A step asks the memory for its words once, and goes on from them only if they are those that the step before left.
pub struct CorrelatedState<K: Correlation, B: AsMut<[NoiseWord]>> {
    memory: B,
    book: Book<K>,
}

/// The bookkeeping of the buffers: the step that left them, and their age.
struct Book<K: Correlation> {
    /// The step that the buffers are for; none before the first.
    next: Option<u32>,
    /// The multiplier of the mechanism that left them.
    multiplier: f64,
    /// Steps since they were 0.
    age: u32,
    /// The sum of the words, by place, that the last step left.
    left: u64,
    /// The first column of the inverse, and the sum of its squares.
    line: K::Line,
    variance: f64,
}

/// The buffers for one release: the words that the memory gave when it was asked, once.
pub struct Buffers<'s, K: Correlation> {
    pub(super) words: &'s mut [NoiseWord],
    book: &'s mut Book<K>,
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> CorrelatedState<K, B> {
    /// Empty buffers in the caller's memory.
    #[must_use]
    pub fn new(memory: B) -> Self {
        let book = Book { next: None, multiplier: 0.0, age: 0, left: 0, line: K::START, variance: 0.0 };
        let mut state = Self { memory, book };
        state.buffers().wipe();
        state
    }

    /// Asks for the words.
    pub(super) fn buffers(&mut self) -> Buffers<'_, K> {
        Buffers { words: self.memory.as_mut(), book: &mut self.book }
    }
}

impl<K: Correlation> Buffers<'_, K> {
    /// Returns true if the buffers were left by the step before this one, of a mechanism of this multiplier. Words of another step, which
    /// the caller's memory may give, were not.
    pub(super) fn follows(&self, step: u32, multiplier: f64) -> bool {
        let is_next = self.book.next == Some(step) && self.book.multiplier.to_bits() == multiplier.to_bits();
        is_next && self.book.left == self.sum()
    }

    /// Begins at zeros.
    pub(super) fn restart(&mut self, multiplier: f64) {
        self.wipe();
        let book = &mut *self.book;
        (book.multiplier, book.age, book.line, book.variance) = (multiplier, 0, K::START, 0.0);
    }

    /// Marks the buffers as those that this step left. Until then they are for no step.
    pub(super) fn finished(&mut self, step: u32) {
        self.book.left = self.sum();
        (self.book.next, self.book.age) = (step.checked_add(1), self.book.age.saturating_add(1));
    }

    /// Marks the buffers as under way: if the step is not finished, the next one begins at zeros.
    pub(super) fn open(&mut self) {
        self.book.next = None;
    }

    /// Steps since the buffers were 0.
    pub(super) fn age(&self) -> u32 {
        self.book.age
    }

    /// Adds the next entry of the inverse to the variance of w over that of z.
    pub(super) fn grow(&mut self, correlation: &K) {
        let entry = correlation.backward(&mut self.book.line, f64::from(u8::from(self.book.age == 0)));
        self.book.variance += entry * entry;
    }

    /// The variance of w over that of z.
    pub(super) fn variance(&self) -> f64 {
        self.book.variance
    }

    /// A polynomial in the words, so that none can be exchanged. Nobody who could choose them knows them.
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
