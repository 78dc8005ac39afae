//! Samplers of steps, and what an event of each is.

use serde::{Deserialize, Serialize};

/// The sampler of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Each sample by a coin of its own, again at every step: an event is a draw.
    #[default]
    Poisson,
    /// Batches of a fixed size out of a new order of all samples each epoch: an event is an epoch, at a rate of 1, for its batches
    /// are disjoint and nothing is claimed of the order.
    Shuffled,
    /// Poisson draws from one of G fixed groups after the other: an event is a draw of each group.
    CyclicPoisson,
    /// Batches of a fixed size in one order for the whole run: an event is an epoch at a rate of 1, or with correlated noise the whole run.
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

    /// Returns true if a sample is drawn by a coin of its own.
    #[must_use]
    pub fn has_coins(self) -> bool {
        matches!(self, Self::Poisson | Self::CyclicPoisson)
    }

    /// Returns true if the privacy cost of correlated noise is known.
    #[must_use]
    pub(super) fn has_correlated_noise(self) -> bool {
        matches!(self, Self::CyclicPoisson | Self::MinSeparation)
    }

    /// The name, as the command takes it.
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
