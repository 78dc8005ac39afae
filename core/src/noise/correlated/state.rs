//! The buffers of correlated noise.

use super::correlation::Correlation;
use super::word::NoiseWord;
use core::fmt;
use zeroize::optimization_barrier;

/// The buffers of a run, `[m · words]` in the caller's memory. They are wiped when they are made and when they are dropped, and are in no
/// snapshot: after a restart, a run goes on with new ones.
pub struct CorrelatedState<K: Correlation, B: AsMut<[NoiseWord]>> {
    pub(super) memory: B,
    /// The step that the buffers are for; none before the first.
    next: Option<u32>,
    /// The multiplier of the mechanism that left them.
    multiplier: f64,
    /// Steps since they were 0.
    pub(super) age: u32,
    /// The first column of the inverse, and the sum of its squares.
    pub(super) line: K::Line,
    pub(super) variance: f64,
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> CorrelatedState<K, B> {
    /// Empty buffers in the caller's memory.
    #[must_use]
    pub fn new(memory: B) -> Self {
        let mut state = Self { memory, next: None, multiplier: 0.0, age: 0, line: K::START, variance: 0.0 };
        state.wipe();
        state
    }

    /// Returns true if the buffers were left by the step before this one, of a mechanism of this multiplier.
    pub(super) fn follows(&self, step: u32, multiplier: f64) -> bool {
        self.next == Some(step) && self.multiplier.to_bits() == multiplier.to_bits()
    }

    /// Begins at zeros.
    pub(super) fn restart(&mut self, multiplier: f64) {
        self.wipe();
        (self.multiplier, self.age, self.line, self.variance) = (multiplier, 0, K::START, 0.0);
    }

    /// Marks the buffers as those that this step left. Until then they are for no step.
    pub(super) fn finished(&mut self, step: u32) {
        (self.next, self.age) = (step.checked_add(1), self.age.saturating_add(1));
    }

    /// Marks the buffers as under way: if the step is not finished, the next one begins at zeros.
    pub(super) fn open(&mut self) {
        self.next = None;
    }

    fn wipe(&mut self) {
        self.next = None;
        let memory = self.memory.as_mut();
        memory.iter_mut().for_each(|word| *word = NoiseWord::ZERO);
        optimization_barrier(memory);
    }
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> Drop for CorrelatedState<K, B> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<K: Correlation, B: AsMut<[NoiseWord]>> fmt::Debug for CorrelatedState<K, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CorrelatedState")
    }
}
