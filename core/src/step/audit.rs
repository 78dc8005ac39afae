//! What an open step holds before it is released, for audits and tests.
//!
//! An audit compares what a mechanism does with what it is priced for, so it must read what nobody else may: each function here takes
//! [`Unreleased`]. The host's trainer claims that, for `damper audit`; firmware, enclaves and the C interface do not. What is read
//! here is as secret as the data.
//!
//! Reading changes nothing: a step that was probed can be finished. Then the noise is the difference of what was released and what was
//! probed.

use super::config::StepConfig;
use super::{Open, Shard, StepState};
use crate::clip::{Clip, Layers};
use crate::count::{Counts, Query};
use crate::noise::sealed::Sealed;
use crate::private::{Mechanism, SumWord};
use damper_access::Unreleased;

/// The content of an open step or of a shard of it.
#[derive(Clone, Copy)]
pub struct Probe<'a, W> {
    /// The sum of clipped gradients, `[D]` words.
    pub sum: &'a [W],
    /// The counts of its samples.
    pub query: Query,
    /// The counts, without noise. The query's answer comes first; the rest is memory without use.
    pub counts: &'a [i32],
    /// Samples whose gradient was not finite, so that they added nothing; 0 if the threshold's counts do not count them.
    pub non_finite: u32,
}

impl<P: StepConfig, FS, OS> Open<'_, P, FS, OS> {
    /// Reads the sum and the counts, which are not released.
    pub fn probe(&self, _: Unreleased) -> Probe<'_, <P::Mechanism as Mechanism>::Word> {
        Probe {
            sum: self.sum.sum,
            query: self.adder.query,
            counts: self.counts.as_ref(),
            non_finite: self.counts.non_finite_samples(),
        }
    }
}

impl<M: Mechanism, C, K: Counts> Shard<'_, M, C, K> {
    /// Reads the sum and the counts, which are not released.
    pub fn probe(&self, _: Unreleased) -> Probe<'_, M::Word> {
        Probe {
            sum: self.sum.sum,
            query: self.adder.query,
            counts: self.counts.as_ref(),
            non_finite: self.counts.non_finite_samples(),
        }
    }
}

impl<B, FS, OS, TS, NS> StepState<B, FS, OS, TS, NS> {
    /// The memory of the sum, outside of a step.
    pub fn sum(&self, _: Unreleased) -> &B {
        &self.sum
    }

    /// The memory of the sum, to be replaced.
    pub fn sum_mut(&mut self, _: Unreleased) -> &mut B {
        &mut self.sum
    }
}

impl<W> SumWord<W> {
    /// A word of this value.
    pub fn new(value: W, _: Unreleased) -> Self {
        Self(value)
    }

    /// The value.
    pub fn get(self, _: Unreleased) -> W {
        self.0
    }
}

/// A rule of clipping as an audit brings it, right or wrong.
pub trait ClipRule: Copy {
    /// As [`Clip::divisor`].
    fn divisor(&self, norm: f32, clip: f32) -> f32;

    /// As [`Clip::layers`].
    fn layers(&self) -> Option<Layers<'_>> {
        None
    }
}

/// Clipping by a [`ClipRule`], which is given the norm of every sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ByRule<R>(R);

impl<R: ClipRule> ByRule<R> {
    /// Clipping by this rule.
    pub fn new(rule: R, _: Unreleased) -> Self {
        Self(rule)
    }
}

impl<R> Sealed for ByRule<R> {}

impl<R: ClipRule> Clip for ByRule<R> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        self.0.divisor(norm, clip)
    }

    fn layers(&self) -> Option<Layers<'_>> {
        self.0.layers()
    }
}
