//! The configuration of a step as one type parameter.

use crate::clip::Clip;
use crate::noise::sealed::Sealed;
use crate::private::Mechanism;
use crate::threshold::Threshold;

/// A [`PrivateStep`](super::PrivateStep) as one type parameter. Sealed: every configuration is a `PrivateStep`.
pub trait StepConfig: Clone + Sealed {
    /// The filter.
    type Filter: Clone;
    /// The optimizer.
    type Optimizer: Clone;
    /// The mechanism.
    type Mechanism: Mechanism;
    /// The rule for the clip of each step.
    type Threshold: Threshold;
    /// The rule of clipping.
    type Clip: Clip;

    /// The fingerprint of all that the price of a step on `dim` parameters depends on, and what its noise is for: mechanism, noise
    /// schedule, counts, rule of clipping and fixed clip, draw, expected batch, and the version of the accounting. Filter, optimizer, learning rate and a clip
    /// that follows released counts cost nothing, and are not in it. Never 0. FNV-1a of 64 bits: it finds mistakes; it authenticates nothing.
    fn fingerprint(&self, dim: usize) -> u64;
}

/// The counts of a step.
pub(super) type CountsOf<P> = <<P as StepConfig>::Threshold as Threshold>::Counts;
