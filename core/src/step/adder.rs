//! Adds a sample to the sum of a step.

use crate::clip::Clip;
use crate::count::{Counts, Query};
use crate::mutant::{self, Mutant};
use crate::noise::sealed::Inside;
use crate::private::Mechanism;

/// Elements of a vector that arrives in parts.
#[inline(always)]
pub(super) fn total_len(parts: &[&[f32]]) -> usize {
    parts.iter().fold(0, |total, part| total.saturating_add(part.len()))
}

/// The settings of a step that adding a sample needs. Each shard has a copy.
#[derive(Clone, Copy)]
pub(super) struct Adder<M, C> {
    pub(super) mechanism: M,
    pub(super) clip: C,
    pub(super) threshold: f32,
    pub(super) query: Query,
    pub(super) step: u32,
}

impl<M: Mechanism, C: Clip> Adder<M, C> {
    /// Returns true if both add to one sum: a unit of another grid, clip or query has another value.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.step == other.step
            && self.mechanism == other.mechanism
            && self.threshold.to_bits() == other.threshold.to_bits()
            && self.query == other.query
    }

    /// Adds a sample whose length was checked, and counts it. Into each of its callers where those are compiled for a processor's
    /// vectors; once where flash is short.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn add<K: Counts>(&self, parts: &[&[f32]], sum: &mut [M::Word], counts: &mut K) {
        mutant::take();
        match self.mechanism.add_sample(&self.clip, self.threshold, parts, sum, Inside(())) {
            Some(norm) => {
                self.query.count(norm, counts.as_mut());
                if mutant::is(Mutant::CountsTwice) {
                    self.query.count(norm, counts.as_mut());
                }
            }
            None => counts.non_finite(&self.query),
        }
    }
}
