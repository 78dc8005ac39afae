//! Filters: DOPPLER, DP-PMLF, DiSK, or none.

use super::MISMATCH;
use crate::filter::{Coefficients, ORDER};
use damper_core::error::{CallError, ConfigError};
use damper_core::filter::{
    Filter, Gain, Identity, Iir, IirState, IirStep, Kalman, KalmanState, KalmanStep, LookAhead, PerSampleMomentum,
    PerSampleMomentumState,
};
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::private::Released;

/// Most iterates of per-sample momentum.
pub(crate) const ITERATES: usize = 16;

/// What is done to gradients before the optimizer.
#[derive(Clone, PartialEq, Debug)]
pub enum FilterChoice {
    /// Nothing: DP-SGD and its kin.
    None,
    /// A recursive filter: DOPPLER.
    Iir(Coefficients),
    /// Per-sample momentum before the clip, then a recursive filter: DP-PMLF; without normalisation inner momentum.
    PerSample(PerSample),
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
            Self::None | Self::Iir(_) => 1,
            Self::PerSample(choice) => choice.iterates,
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
    pub(crate) fn build(&self, dim: usize) -> Result<(AnyFilter, AnyFilterState), ConfigError> {
        let iir_state = |iir: &Iir<ORDER>| IirState::new(vec![0.0; iir.order() * dim]);
        Ok(match self {
            Self::None => (AnyFilter::None(Identity), AnyFilterState::None),
            Self::Iir(coefficients) => {
                let iir = coefficients.to_core()?;
                let state = iir_state(&iir);
                (AnyFilter::Iir(iir), AnyFilterState::Iir(state))
            }
            Self::PerSample(PerSample { iterates, beta, normalised, inner }) => {
                if !(1..=ITERATES).contains(iterates) {
                    return Err(ConfigError { parameter: "number of iterates", must_be: "from 1 to 16" });
                }
                let iir = inner.to_core()?;
                let state = iir_state(&iir);
                let momentum = if *normalised {
                    PerSampleMomentum::new(*iterates, *beta, iir)?
                } else {
                    PerSampleMomentum::unnormalised(*iterates, *beta, iir)?
                };
                let state = PerSampleMomentumState::new(vec![0.0; momentum.iterates_len(dim)], state);
                (AnyFilter::PerSample(momentum), AnyFilterState::PerSample(state))
            }
            Self::Kalman { gain, look_ahead } => {
                if let LookAhead::Two { gamma } = look_ahead
                    && !gamma.is_finite()
                {
                    return Err(ConfigError { parameter: "gamma", must_be: "finite and at least 0.01 in magnitude" });
                }
                let kalman = Kalman::new(*gain, *look_ahead)?;
                let state = KalmanState::new(&kalman, vec![0.0; dim], vec![0.0; dim]);
                (AnyFilter::Kalman(kalman), AnyFilterState::Kalman(state))
            }
        })
    }
}

/// A filter of the core.
pub(crate) enum AnyFilter {
    None(Identity),
    Iir(Iir<ORDER>),
    PerSample(PerSampleMomentum<Iir<ORDER>, ITERATES>),
    Kalman(Kalman),
}

/// Its memory.
pub(crate) enum AnyFilterState {
    None,
    Iir(IirState<Vec<f32>, ORDER>),
    PerSample(PerSampleMomentumState<Vec<f32>, IirState<Vec<f32>, ORDER>>),
    Kalman(KalmanState<Vec<f32>>),
}

/// What the pieces of one of its steps share.
#[derive(Clone, Copy)]
pub(crate) enum AnyFilterStep {
    None,
    Iir(IirStep),
    Kalman(KalmanStep),
}

impl AnyFilter {
    /// What recordings compare of its memory; none without memory.
    pub(crate) fn digest(&self, state: &AnyFilterState) -> Option<Digest> {
        let mut digest = Digest::default();
        match (self, state) {
            (Self::Iir(filter), AnyFilterState::Iir(state)) => filter.add_to(state, &mut digest),
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => filter.add_to(state, &mut digest),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => filter.add_to(state, &mut digest),
            _ => return None,
        }
        Some(digest)
    }
}

impl Filter<AnyFilterState> for AnyFilter {
    type Step = AnyFilterStep;

    fn points(&self, state: &AnyFilterState) -> usize {
        match (self, state) {
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => filter.points(state),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => filter.points(state),
            _ => 1,
        }
    }

    fn point(&self, state: &AnyFilterState, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        match (self, state) {
            (Self::None(filter), AnyFilterState::None) => filter.point(&(), index, params, out),
            (Self::Iir(filter), AnyFilterState::Iir(state)) => filter.point(state, index, params, out),
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => filter.point(state, index, params, out),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => filter.point(state, index, params, out),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn weight(&self, state: &AnyFilterState, index: usize) -> f32 {
        match (self, state) {
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => filter.weight(state, index),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => filter.weight(state, index),
            _ => 1.0,
        }
    }

    fn check(&self, state: &AnyFilterState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::None(filter), AnyFilterState::None) => filter.check(&(), dim),
            (Self::Iir(filter), AnyFilterState::Iir(state)) => filter.check(state, dim),
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => filter.check(state, dim),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => filter.check(state, dim),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn begin(&self, state: &mut AnyFilterState) -> AnyFilterStep {
        match (self, state) {
            (Self::None(_), AnyFilterState::None) => AnyFilterStep::None,
            (Self::Iir(filter), AnyFilterState::Iir(state)) => AnyFilterStep::Iir(filter.begin(state)),
            (Self::PerSample(filter), AnyFilterState::PerSample(state)) => AnyFilterStep::Iir(filter.begin(state)),
            (Self::Kalman(filter), AnyFilterState::Kalman(state)) => AnyFilterStep::Kalman(filter.begin(state)),
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn apply(
        &self,
        step: AnyFilterStep,
        state: &mut AnyFilterState,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        match (self, step, state) {
            (Self::None(filter), AnyFilterStep::None, AnyFilterState::None) => {
                filter.apply((), &mut (), at, released, filtered);
            }
            (Self::Iir(filter), AnyFilterStep::Iir(step), AnyFilterState::Iir(state)) => {
                filter.apply(step, state, at, released, filtered);
            }
            (Self::PerSample(filter), AnyFilterStep::Iir(step), AnyFilterState::PerSample(state)) => {
                filter.apply(step, state, at, released, filtered);
            }
            (Self::Kalman(filter), AnyFilterStep::Kalman(step), AnyFilterState::Kalman(state)) => {
                filter.apply(step, state, at, released, filtered);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn leave(&self, step: AnyFilterStep, state: &mut AnyFilterState, at: usize, params: &[f32]) {
        match (self, step, state) {
            (Self::PerSample(filter), AnyFilterStep::Iir(step), AnyFilterState::PerSample(state)) => {
                filter.leave(step, state, at, params);
            }
            (Self::Kalman(filter), AnyFilterStep::Kalman(step), AnyFilterState::Kalman(state)) => {
                filter.leave(step, state, at, params);
            }
            _ => {}
        }
    }

    fn arrive(&self, step: AnyFilterStep, state: &mut AnyFilterState, at: usize, params: &[f32]) {
        match (self, step, state) {
            (Self::PerSample(filter), AnyFilterStep::Iir(step), AnyFilterState::PerSample(state)) => {
                filter.arrive(step, state, at, params);
            }
            (Self::Kalman(filter), AnyFilterStep::Kalman(step), AnyFilterState::Kalman(state)) => {
                filter.arrive(step, state, at, params);
            }
            _ => {}
        }
    }
}
