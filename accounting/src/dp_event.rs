//! Mechanisms of any program, and their privacy cost: the face of this crate for users without damper's trainer.
//!
//! [`DpEvent`] describes releases, draws, compositions and selections. It has bounds of ε and δ on both sides, and
//! [`calibrate_event`] finds a value of it. No other crate of damper is needed.
//!
//! - `flat` lists the releases of a mechanism, with every rounding on the side of the bound.
//! - `bounds` computes ε and δ.
//! - `search` calibrates.

pub(crate) mod adjacency;
pub(crate) mod bounds;
mod flat;
pub(crate) mod search;
#[cfg(test)]
mod tests;

use crate::AccountingError;
use crate::factor::{Participation, sensitivity};
use crate::selection::CandidateCount;

/// A differentially private mechanism.
///
/// Mechanisms compose adaptively: each may depend on everything that was released before. Ranges are checked when a
/// bound is computed.
///
/// ```
/// use damper_accounting::{AccountingError, Adjacency, DpEvent, calibrate_event};
///
/// # fn main() -> Result<(), AccountingError> {
/// // DP-SGD: 1000 steps with noise of 1.1 clips, each on a Poisson draw of 1 % of the records.
/// let run = DpEvent::gaussian(1.1).poisson(0.01).times(1000);
/// let (low, high) = run.epsilon_bounds(Adjacency::AddOrRemove, 1e-5)?;
/// assert!(1.51 < low.unwrap() && high < 1.52 && high < 1.003 * low.unwrap());
///
/// // The δ of an ε. The bound is above the truth by at most 0.5 %.
/// let delta = run.delta(Adjacency::AddOrRemove, high)?;
/// assert!(0.99e-5 < delta && delta < 1.005e-5);
///
/// // A histogram with Laplace noise costs more, and any value of a mechanism can be calibrated.
/// let both = |noise: f64| DpEvent::compose([run.clone(), DpEvent::laplace(noise)]);
/// let make = |noise| Ok::<_, AccountingError>(both(noise));
/// let noise = calibrate_event(Adjacency::AddOrRemove, 2.0, 1e-5, 0.1, 100.0, make)?;
/// assert!(both(noise).epsilon(Adjacency::AddOrRemove, 1e-5)? <= 2.0);
/// assert!(both(0.99 * noise).epsilon(Adjacency::AddOrRemove, 1e-5)? > 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum DpEvent {
    /// A release without privacy: ε is infinite.
    NonPrivate,
    /// A Gaussian release of a vector.
    Gaussian {
        /// σ over the largest 2-norm of a record's contribution.
        multiplier: f64,
    },
    /// A Laplace release of one number.
    Laplace {
        /// The scale over the largest contribution of a record.
        multiplier: f64,
    },
    /// A release of one integer with discrete Laplace noise, `P[k] ∝ e^{−a|k|}`.
    DiscreteLaplace {
        /// a, above 0.
        parameter: f64,
        /// The largest contribution of a record, at least 1.
        sensitivity: u32,
    },
    /// A release of one integer with discrete Gaussian noise, `P[k] ∝ e^{−k²/2σ²}`.
    DiscreteGaussian {
        /// σ.
        sigma: f64,
        /// The largest contribution of a record, at least 1.
        sensitivity: u32,
    },
    /// Randomised response of one record: its bucket, or with probability `noise` any bucket.
    RandomizedResponse {
        /// The probability of a uniform bucket, above 0 and at most 1.
        noise: f64,
        /// The number of buckets.
        buckets: u32,
    },
    /// Any mechanism that is (ε, δ)-private under the adjacency that is asked about.
    Approximate {
        /// ε, at least 0.
        epsilon: f64,
        /// δ, at least 0.
        delta: f64,
    },
    /// Any mechanism with a Rényi divergence of at most `ξ + ρα` at each order α, under the adjacency that is asked
    /// about.
    Concentrated {
        /// ρ, at least 0.
        rho: f64,
        /// ξ, at least 0.
        xi: f64,
    },
    /// Binary trees of sums over steps, with Gaussian noise at each node. A record is in one step of one tree.
    Tree {
        /// σ of a node over the clip.
        multiplier: f64,
        /// The largest number of steps of a tree.
        steps: u64,
    },
    /// A matrix mechanism: Gaussian noise on `CX`.
    Matrix {
        /// σ over the clip.
        multiplier: f64,
        /// The largest norm `‖CX‖` over the contributions of a record, in clips, rounded up. [`DpEvent::toeplitz`]
        /// computes it.
        sensitivity: f64,
    },
    /// A Poisson draw: each record is in it with probability `rate`, independently.
    Poisson {
        /// The rate.
        rate: f64,
        /// The releases of the draw.
        of: Box<Self>,
    },
    /// A batch of fixed size, drawn without replacement.
    FixedSize {
        /// The number of records.
        population: u64,
        /// The size of the batch.
        sample: u64,
        /// The releases of the batch.
        of: Box<Self>,
    },
    /// A Gaussian release of a Poisson draw. If the draw is too large, a random part of it is left.
    TruncatedPoisson {
        /// The number of records.
        population: u64,
        /// The rate before truncation.
        rate: f64,
        /// The largest batch.
        most: u64,
        /// σ over the clip.
        multiplier: f64,
    },
    /// Mechanisms in sequence, each with its number of repetitions.
    Compose(Vec<(Self, u64)>),
    /// The best result of a random number of runs.
    Selection {
        /// The distribution of the number of runs.
        candidates: CandidateCount,
        /// A run. It releases its result with the score.
        of: Box<Self>,
    },
}

impl DpEvent {
    /// A Gaussian release.
    #[must_use]
    pub fn gaussian(multiplier: f64) -> Self {
        Self::Gaussian { multiplier }
    }

    /// A Laplace release of one number.
    #[must_use]
    pub fn laplace(multiplier: f64) -> Self {
        Self::Laplace { multiplier }
    }

    /// A matrix mechanism whose lower-triangular Toeplitz matrix C has the first column `column`. A record takes part
    /// in at most `participations` of `steps` steps, at least `separation` steps apart.
    ///
    /// # Errors
    ///
    /// A number of the participation is 0 or too large.
    ///
    /// ```
    /// use damper_accounting::{Adjacency, DpEvent};
    ///
    /// // 100 steps, and each record is in one of them, or is a null record.
    /// let run = DpEvent::toeplitz(2.0, &[1.0, 0.5], [100, 100, 1])?;
    /// assert!(run.epsilon(Adjacency::ZeroOut, 1e-5)? > DpEvent::gaussian(2.0).epsilon(Adjacency::ZeroOut, 1e-5)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn toeplitz(
        multiplier: f64,
        column: &[f64],
        [steps, separation, participations]: [u32; 3],
    ) -> Result<Self, AccountingError> {
        let participation = Participation::new(steps, separation, participations)?;
        Ok(Self::Matrix { multiplier, sensitivity: sensitivity(column, participation) })
    }

    /// This mechanism on a Poisson draw.
    #[must_use]
    pub fn poisson(self, rate: f64) -> Self {
        Self::Poisson { rate, of: Box::new(self) }
    }

    /// This mechanism on a batch of `sample` records of `population`, drawn without replacement.
    ///
    /// ```
    /// use damper_accounting::{Adjacency, DpEvent};
    ///
    /// // 600 of 60,000 records without replacement, a hundred times.
    /// let run = DpEvent::gaussian(2.0).fixed_size(600, 60_000).times(100);
    /// assert!(run.epsilon(Adjacency::ReplaceOne, 1e-5)? < 1.0);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    #[must_use]
    pub fn fixed_size(self, sample: u64, population: u64) -> Self {
        Self::FixedSize { population, sample, of: Box::new(self) }
    }

    /// This mechanism `times` times.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self::Compose(vec![(self, times)])
    }

    /// Mechanisms in sequence. Without any, nothing is released.
    #[must_use]
    pub fn compose(mechanisms: impl IntoIterator<Item = Self>) -> Self {
        Self::Compose(mechanisms.into_iter().map(|one| (one, 1)).collect())
    }

    /// The best result of a random number of runs of this mechanism.
    ///
    /// ```
    /// use damper_accounting::{Adjacency, DpEvent};
    ///
    /// let run = DpEvent::gaussian(4.0);
    /// let best = run.clone().best_of("geometric:0.1".parse()?);
    /// assert!(best.epsilon(Adjacency::AddOrRemove, 1e-5)? > run.epsilon(Adjacency::AddOrRemove, 1e-5)?);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    #[must_use]
    pub fn best_of(self, candidates: CandidateCount) -> Self {
        Self::Selection { candidates, of: Box::new(self) }
    }

    /// The name in errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NonPrivate => "a release without privacy",
            Self::Gaussian { .. } => "a Gaussian release",
            Self::Laplace { .. } => "a Laplace release",
            Self::DiscreteLaplace { .. } => "a discrete Laplace release",
            Self::DiscreteGaussian { .. } => "a discrete Gaussian release",
            Self::RandomizedResponse { .. } => "randomised response",
            Self::Approximate { .. } => "an (epsilon, delta)-private release",
            Self::Concentrated { .. } => "a zCDP release",
            Self::Tree { .. } => "a tree of sums",
            Self::Matrix { .. } => "a matrix mechanism",
            Self::Poisson { .. } => "a Poisson draw",
            Self::FixedSize { .. } => "a batch of fixed size",
            Self::TruncatedPoisson { .. } => "a truncated Poisson draw",
            Self::Compose(_) => "a composition",
            Self::Selection { .. } => "a private selection",
        }
    }
}
