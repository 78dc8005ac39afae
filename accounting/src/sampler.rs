//! Samplers of batches, and the event of each.

use serde::{Deserialize, Serialize};

/// The sampler of a step.
///
/// ```
/// use damper_accounting::Sampler;
///
/// assert!(Sampler::Poisson.has_event_each_step() && !Sampler::Shuffled.has_event_each_step());
/// assert!(Sampler::CyclicPoisson.has_coins());
/// assert_eq!(Sampler::MinSeparation.name(), "min-separation");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Each sample has an independent Bernoulli trial at every step. An event is a draw.
    #[default]
    Poisson,
    /// Batches of a fixed size, in a new order of all samples each epoch. An event is an epoch at a rate of 1, because
    /// its batches are disjoint. The accountant assumes nothing about the order.
    Shuffled,
    /// Poisson draws from G fixed groups in turn. An event is a draw of each group.
    CyclicPoisson,
    /// Batches of a fixed size, in one order for the whole run. An event is an epoch at a rate of 1, or the whole run
    /// with correlated noise.
    MinSeparation,
}

impl Sampler {
    pub(super) fn is_poisson(&self) -> bool {
        *self == Self::Poisson
    }

    /// Returns true if an event is a step.
    #[must_use]
    pub fn has_event_each_step(self) -> bool {
        self == Self::Poisson
    }

    /// Returns true if each sample has an independent Bernoulli trial.
    #[must_use]
    pub fn has_coins(self) -> bool {
        matches!(self, Self::Poisson | Self::CyclicPoisson)
    }

    /// Returns true if the privacy cost of correlated noise is known.
    #[must_use]
    pub(super) fn has_correlated_noise(self) -> bool {
        matches!(self, Self::CyclicPoisson | Self::MinSeparation)
    }

    /// The name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Shuffled => "shuffled",
            Self::CyclicPoisson => "cyclic-poisson",
            Self::MinSeparation => "min-separation",
        }
    }
}
