//! Filters: DOPPLER, DP-PMLF, DiSK, or none.

mod stateful;

pub(crate) use stateful::FilterState;

use crate::filter::{Coefficients, ORDER};
use damper_core::error::ConfigError;
use damper_core::filter::{
    AdaptiveFir, AdaptiveFirState, Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead,
    PerSampleMomentum, PerSampleMomentumState, Uncorrected,
};
use damper_core::numerics::digest::Digested;
use damper_core::slots::{FilterSlot, StatefulSlot};
use damper_core::state::SaveState;

/// Most iterates of per-sample momentum.
pub(crate) const ITERATES: usize = 16;
/// Most past gradients of the adaptive filter.
pub const LAGS: usize = 16;

/// What is done to gradients before the optimizer.
#[derive(Clone, PartialEq, Debug)]
pub enum FilterChoice {
    /// Nothing: DP-SGD and its kin.
    None,
    /// A recursive filter: DOPPLER.
    Iir(Coefficients),
    /// The same without bias correction.
    Uncorrected(Coefficients),
    /// A filter whose taps follow the released gradients: DOPPLER's §5.3.
    AdaptiveFir {
        /// Past gradients, `n`.
        lags: usize,
        /// What its averages keep from step to step, `ρ`.
        memory: f64,
        /// `ε₁`.
        floor: f64,
    },
    /// Per-sample momentum before the clip, then a recursive filter: DP-PMLF; without normalisation inner momentum.
    PerSample(PerSample),
    /// The same without bias correction of the recursive filter.
    PerSampleUncorrected(PerSample),
    /// The simplified Kalman filter: DiSK.
    Kalman {
        /// Its gain.
        gain: Gain,
        /// Where it wants gradients.
        look_ahead: LookAhead,
    },
}

/// Per-sample momentum and what follows the release.
#[derive(Clone, PartialEq, Debug)]
pub struct PerSample {
    /// `k`.
    pub iterates: usize,
    /// `β`.
    pub beta: f64,
    /// Whether the weights are divided by their sum.
    pub normalised: bool,
    /// The filter of what is released.
    pub inner: Coefficients,
}

impl FilterChoice {
    /// Gradients of each sample at a step, once the history is full.
    #[must_use]
    pub fn gradients_per_sample(&self) -> usize {
        match self {
            Self::None | Self::Iir(_) | Self::Uncorrected(_) | Self::AdaptiveFir { .. } => 1,
            Self::PerSample(choice) | Self::PerSampleUncorrected(choice) => choice.iterates,
            Self::Kalman { gain: Gain::Constant(1.0), .. } | Self::Kalman { look_ahead: LookAhead::One, .. } => 1,
            // The weight of the gradient ahead, as the core works it out: where it is 1, the other is not taken.
            Self::Kalman { gain: Gain::Constant(kappa), look_ahead: LookAhead::Two { gamma } }
                if (1.0 - kappa) / kappa / gamma == 1.0 =>
            {
                1
            }
            Self::Kalman { look_ahead: LookAhead::Two { .. }, .. } => 2,
        }
    }

    /// The filter and its memory for `dim` parameters.
    pub(crate) fn build(&self, dim: usize) -> Result<(FilterSlot, FilterState), ConfigError> {
        let iir_state = |iir: &Iir<ORDER>| IirState::new(vec![0.0; iir.order() * dim]);
        let state: FilterState = match self {
            Self::None => Box::new(StatefulSlot::filter(Identity, ())),
            Self::Iir(coefficients) => {
                let iir = coefficients.to_core()?;
                let state = iir_state(&iir);
                Box::new(StatefulSlot::filter(iir, state))
            }
            Self::Uncorrected(coefficients) => {
                let iir = coefficients.to_core()?;
                let state = iir_state(&iir);
                Box::new(StatefulSlot::filter(Uncorrected(iir), state))
            }
            Self::AdaptiveFir { lags, memory, floor } => {
                let filter = AdaptiveFir::<LAGS>::new(*lags, *memory, *floor)?;
                Box::new(StatefulSlot::filter(filter, AdaptiveFirState::new(vec![0.0; filter.memory_len(dim)])))
            }
            Self::PerSample(choice) => {
                let iir = choice.inner.to_core()?;
                let state = iir_state(&iir);
                choice.build(dim, iir, state)?
            }
            Self::PerSampleUncorrected(choice) => {
                let iir = choice.inner.to_core()?;
                let state = iir_state(&iir);
                choice.build(dim, Uncorrected(iir), state)?
            }
            Self::Kalman { gain, look_ahead } => {
                if let LookAhead::Two { gamma } = look_ahead
                    && !gamma.is_finite()
                {
                    return Err(ConfigError { parameter: "gamma", must_be: "finite and at least 0.01 in magnitude" });
                }
                let kalman = Kalman::new(*gain, *look_ahead)?;
                let state = KalmanState::new(&kalman, vec![0.0; dim], vec![0.0; dim]);
                Box::new(StatefulSlot::filter(kalman, state))
            }
        };
        Ok((FilterSlot::of(&*state), state))
    }
}

impl PerSample {
    /// Per-sample momentum before `inner`, for `dim` parameters.
    fn build<F, S>(&self, dim: usize, inner: F, state: S) -> Result<FilterState, ConfigError>
    where
        F: Filter<S> + Digested<S> + 'static,
        S: SaveState + 'static,
    {
        let Self { iterates, beta, normalised, .. } = *self;
        if !(1..=ITERATES).contains(&iterates) {
            return Err(ConfigError { parameter: "number of iterates", must_be: "from 1 to 16" });
        }
        let momentum = if normalised {
            PerSampleMomentum::<F, ITERATES>::new(iterates, beta, inner)?
        } else {
            PerSampleMomentum::unnormalised(iterates, beta, inner)?
        };
        let state = PerSampleMomentumState::new(vec![0.0; momentum.iterates_len(dim)], state);
        Ok(Box::new(StatefulSlot::filter(momentum, state)))
    }
}
