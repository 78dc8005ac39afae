//! Configuration of a step as one type parameter.

use crate::clip::Clip;
use crate::noise::sealed::Sealed;
use crate::private::Mechanism;
use crate::threshold::Threshold;

/// A [`PrivateStep`](super::PrivateStep) as one type parameter. Sealed: every configuration is a `PrivateStep`.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_core::step::StepConfig as _;
///
/// let with = |noise, rate| DpSgd::new().clip(1.0).noise_multiplier(noise).learning_rate(rate).expected_batch(60).build();
/// // The learning rate costs no privacy, and the noise does.
/// assert_eq!(with(1.1, 0.1)?.fingerprint(650), with(1.1, 0.5)?.fingerprint(650));
/// assert!(with(1.1, 0.1)?.fingerprint(650) != with(1.2, 0.1)?.fingerprint(650));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait StepConfig: Clone + Sealed {
    /// Filter.
    type Filter: Clone;
    /// Optimizer.
    type Optimizer: Clone;
    /// Mechanism.
    type Mechanism: Mechanism;
    /// Clipping threshold of each step.
    type Threshold: Threshold;
    /// Clipping rule.
    type Clip: Clip;

    /// Returns the fingerprint of everything that determines the privacy cost of a step on `dim` parameters. Never 0.
    ///
    /// It covers mechanism, noise schedule, counts, clipping rule, fixed clip, sampling, expected batch and the version
    /// of the accounting. Filter, optimizer, learning rate and adaptive clip have no privacy cost and are not in it.
    /// The hash is FNV-1a of 64 bits. It detects mistakes and does not authenticate.
    fn fingerprint(&self, dim: usize) -> u64;
}

/// Type of the counts of a step.
pub(super) type CountsOf<P> = <<P as StepConfig>::Threshold as Threshold>::Counts;
