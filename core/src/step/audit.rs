//! Content of an open step before release, for audits and tests.
//!
//! An audit compares the mechanism with its accounting, so it must read values that no other code may read. Each
//! function here takes [`Unreleased`]. The host's trainer claims that token for `damper audit`. Firmware, enclaves and
//! the C interface do not. The values are as secret as the data.
//!
//! Reading changes nothing, so a probed step can be finished. The noise is then the released sum minus the probed sum.

use super::config::StepConfig;
use super::{Open, Shard, StepState};
use crate::clip::{Clip, Layers};
use crate::count::{Counts, Query};
use crate::noise::sealed::Sealed;
use crate::private::{Mechanism, SumWord};
use damper_access::Unreleased;

/// Content of an open step or of a shard.
///
/// ```
/// use damper_access::Unreleased;
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, -0.25])?;
/// // On the grid of 2¹⁶ units per clip.
/// let probe = step.probe(Unreleased::claim());
/// let units: Vec<i32> = probe.sum.iter().map(|word| word.get(Unreleased::claim())).collect();
/// assert_eq!((units, probe.non_finite), (vec![1 << 15, -(1 << 14)], 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Probe<'a, W> {
    /// Sum of clipped gradients, `[D]` words.
    pub sum: &'a [W],
    /// Query for the counts of the samples.
    pub query: Query,
    /// Counts without noise. The result of the query comes first, and the rest is unused memory.
    pub counts: &'a [i32],
    /// Number of samples with a gradient that is not finite. They added nothing. 0 if the threshold does not count
    /// them.
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
    ///
    /// ```
    /// use damper_access::Unreleased;
    /// use damper_core::{prelude::*, private::SumWord};
    ///
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    /// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
    /// let (step, mut memory) = (config.open(&mut state, &mut ledger)?, [SumWord::ZERO; 2]);
    /// let mut shard = step.shard(&mut memory)?;
    /// shard.add_combined(&[&[0.5, -0.25]])?;
    /// let probe = shard.probe(Unreleased::claim());
    /// assert_eq!(probe.sum[0].get(Unreleased::claim()), 1 << 15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// Returns the memory of the sum, outside a step.
    pub fn sum(&self, _: Unreleased) -> &B {
        &self.sum
    }

    /// Returns the memory of the sum, to replace it.
    ///
    /// ```
    /// use damper_access::Unreleased;
    /// use damper_core::{prelude::*, private::SumWord};
    ///
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    /// let mut state = config.state::<2>();
    /// // Words of a forgotten step, which the next step wipes.
    /// state.sum_mut(Unreleased::claim()).fill(SumWord::new(7, Unreleased::claim()));
    /// drop(config.open(&mut state, &mut Ledger::volatile(1))?);
    /// assert_eq!(state.sum(Unreleased::claim()).map(|word| word.get(Unreleased::claim())), [0, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sum_mut(&mut self, _: Unreleased) -> &mut B {
        &mut self.sum
    }
}

impl<W> SumWord<W> {
    /// Creates a word with this value.
    pub fn new(value: W, _: Unreleased) -> Self {
        Self(value)
    }

    /// Returns the value.
    ///
    /// ```
    /// use damper_access::Unreleased;
    /// use damper_core::private::SumWord;
    ///
    /// assert_eq!(SumWord::new(7, Unreleased::claim()).get(Unreleased::claim()), 7);
    /// ```
    pub fn get(self, _: Unreleased) -> W {
        self.0
    }
}

/// A clipping rule supplied by an audit. It may be wrong on purpose.
///
/// ```
/// use damper_access::Unreleased;
/// use damper_core::{clip::Clip as _, step::audit::{ByRule, ClipRule}};
///
/// /// Wrong on purpose: it bounds samples by twice the clip.
/// #[derive(Clone, Copy)]
/// struct Twice;
/// impl ClipRule for Twice {
///     fn divisor(&self, norm: f32, clip: f32) -> f32 {
///         norm.max(clip) / 2.0
///     }
/// }
///
/// assert_eq!(ByRule::new(Twice, Unreleased::claim()).divisor(3.0, 1.0), 1.5);
/// ```
pub trait ClipRule: Copy {
    /// Returns the divisor, as [`Clip::divisor`] does.
    fn divisor(&self, norm: f32, clip: f32) -> f32;

    /// Returns the layers, as [`Clip::layers`] does.
    fn layers(&self) -> Option<Layers<'_>> {
        None
    }
}

/// Clipping by a [`ClipRule`], which receives the norm of every sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ByRule<R>(R);

impl<R: ClipRule> ByRule<R> {
    /// Creates a clip from this rule.
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
