//! Filters by name, with their settings: DOPPLER, DP-PMLF, DiSK, or none.

mod stateful;

pub use stateful::FilterState;

use super::by_name::ByName;
use damper_core::error::ConfigError;
use damper_core::filter::{
    AdaptiveFir, AdaptiveFirState, Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead,
    PerSampleMomentum, PerSampleMomentumState, Uncorrected,
};
use damper_core::numerics::digest::Digested;
use damper_core::record::ToRecord;
use damper_core::slots::{FilterSlot, StatefulSlot};
use damper_core::state::SaveState;
use damper_design::{Coefficients, ORDER};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done to released gradients before the optimizer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum FilterChoice {
    /// No filter
    #[default]
    None,
    /// Low-pass filter on released gradients
    Doppler {
        /// The recursive filter.
        taps: Coefficients,
        /// The output is divided by the filter's step response.
        bias_correction: bool,
    },
    /// A filter whose taps follow the gradients' autocorrelation
    AdaptiveFir {
        /// Past gradients.
        lags: usize,
        /// What its averages keep from step to step.
        memory: f64,
        /// The least squared norm.
        floor: f64,
    },
    /// Per-sample momentum and low-pass filter
    DpPmlf {
        /// dp-pmlf, inner-outer: iterates whose gradients are mixed per sample, the current one included, 1 to 16 [default: 2]
        #[schemars(extend("x-value" = "K"))]
        iterates: usize,
        /// dp-pmlf, inner-outer: factor of the mix, -0.9 to 1 [default: dp-pmlf 0.1, inner-outer 0.9]
        #[schemars(extend("x-value" = "B"))]
        beta: f64,
        /// The recursive filter of what is released.
        taps: Coefficients,
        /// Its output is divided by its step response.
        bias_correction: bool,
    },
    /// Inner and outer momentum (Xiao et al.)
    InnerOuter {
        /// As dp-pmlf's.
        #[schemars(extend("x-value" = "K"))]
        iterates: usize,
        /// As dp-pmlf's; the mix is not normalised.
        #[schemars(extend("x-value" = "B"))]
        beta: f64,
        /// The recursive filter of what is released.
        taps: Coefficients,
        /// Its output is divided by its step response.
        bias_correction: bool,
    },
    /// Simplified Kalman filter
    Disk {
        /// disk: the filter's gain, 0.001 to 1 (1: no filter) [default: 0.7]
        #[schemars(extend("x-value" = "K", "x-conflict" = "gain_recursion"))]
        kappa: f64,
        /// disk: the gain follows the scalar recursion with these variances: of the noise, of the difference, of the gradient
        #[schemars(extend("x-value" = "W,H,V", "x-conflict" = "kappa"))]
        gain_recursion: Option<[f64; 3]>,
        /// disk: `one` takes one gradient a sample, at the point (1-K)/K steps ahead; a number takes two, one of them so many steps ahead
        /// [default: one]
        #[schemars(extend("x-value" = "one|G"))]
        gamma: Option<f64>,
    },
}

impl ByName for FilterChoice {
    const SETTING: &'static str = "filter";

    fn named() -> Vec<(&'static str, Self)> {
        let momentum = || Coefficients { a: vec![-0.9], b: vec![0.1] };
        vec![
            ("none", Self::None),
            ("doppler", Self::Doppler { taps: momentum(), bias_correction: true }),
            ("adaptive-fir", Self::AdaptiveFir { lags: 1, memory: 0.9, floor: 1e-3 }),
            ("dp-pmlf", Self::DpPmlf { iterates: 2, beta: 0.1, taps: momentum(), bias_correction: true }),
            (
                "inner-outer",
                Self::InnerOuter { iterates: 2, beta: 0.9, taps: Coefficients::identity(), bias_correction: true },
            ),
            ("disk", Self::Disk { kappa: 0.7, gain_recursion: None, gamma: None }),
        ]
    }
}

impl FilterChoice {
    /// The recursive filter of it; `None` if it has none.
    #[must_use]
    pub fn taps(&self) -> Option<&Coefficients> {
        match self {
            Self::Doppler { taps, .. } | Self::DpPmlf { taps, .. } | Self::InnerOuter { taps, .. } => Some(taps),
            Self::None | Self::AdaptiveFir { .. } | Self::Disk { .. } => None,
        }
    }

    /// The same with this recursive filter, if it has one.
    #[must_use]
    pub fn with_taps(mut self, new: &Coefficients) -> Self {
        match &mut self {
            Self::Doppler { taps, .. } | Self::DpPmlf { taps, .. } | Self::InnerOuter { taps, .. } => {
                taps.clone_from(new);
            }
            Self::None | Self::AdaptiveFir { .. } | Self::Disk { .. } => {}
        }
        self
    }

    /// The same with the recursive filter's output as it is, if it has one.
    #[must_use]
    pub fn uncorrected(mut self) -> Self {
        match &mut self {
            Self::Doppler { bias_correction, .. }
            | Self::DpPmlf { bias_correction, .. }
            | Self::InnerOuter { bias_correction, .. } => *bias_correction = false,
            Self::None | Self::AdaptiveFir { .. } | Self::Disk { .. } => {}
        }
        self
    }

    /// Returns true if the output of a recursive filter is not divided by its step response.
    #[must_use]
    pub fn is_uncorrected(&self) -> bool {
        matches!(
            self,
            Self::Doppler { bias_correction: false, .. }
                | Self::DpPmlf { bias_correction: false, .. }
                | Self::InnerOuter { bias_correction: false, .. }
        )
    }

    /// Gradients of each sample at a step, once the history is full.
    #[must_use]
    pub fn gradients_per_sample(&self) -> usize {
        let Ok((_, mut state)) = self.build(0) else { return 1 };
        (0..=ORDER).for_each(|_| state.begin());
        state.eval_points()
    }

    /// The filter and its memory for `dim` parameters.
    pub(crate) fn build(&self, dim: usize) -> Result<(FilterSlot, FilterState), ConfigError> {
        let state = self.state(dim).map_err(|error| match (error.parameter, self) {
            ("number of iterates", _) => ConfigError { must_be: "from 1 to 16", ..error },
            ("gamma", Self::Disk { gamma: Some(gamma), .. }) if !gamma.is_finite() => {
                ConfigError { must_be: "finite and at least 0.01 in magnitude", ..error }
            }
            _ => error,
        })?;
        Ok((FilterSlot::of(&*state), state))
    }

    fn state(&self, dim: usize) -> Result<FilterState, ConfigError> {
        Ok(match *self {
            Self::None => held(Identity, ()),
            Self::Doppler { ref taps, bias_correction } => {
                let (iir, state) = recursive(taps, dim)?;
                if bias_correction { held(iir, state) } else { held(Uncorrected(iir), state) }
            }
            Self::AdaptiveFir { lags, memory, floor } => {
                let fir = AdaptiveFir::<ORDER>::new(lags, memory, floor)?;
                let past = vec![0.0; fir.memory_len(dim)];
                held(fir, AdaptiveFirState::new(past))
            }
            Self::DpPmlf { iterates, beta, ref taps, bias_correction }
            | Self::InnerOuter { iterates, beta, ref taps, bias_correction } => {
                let (iir, state) = recursive(taps, dim)?;
                let mix = (iterates, beta, matches!(self, Self::DpPmlf { .. }));
                if bias_correction {
                    momentum(mix, iir, state, dim)?
                } else {
                    momentum(mix, Uncorrected(iir), state, dim)?
                }
            }
            Self::Disk { kappa, gain_recursion, gamma } => {
                let gain = match gain_recursion {
                    None => Gain::Constant(kappa),
                    Some([noise, drift, process]) => Gain::Recursion { noise, drift, process },
                };
                let look_ahead = gamma.map_or(LookAhead::One, |gamma| LookAhead::Two { gamma });
                let kalman = Kalman::new(gain, look_ahead)?;
                held(kalman, KalmanState::new(&kalman, vec![0.0; dim], vec![0.0; dim]))
            }
        })
    }
}

fn held<M, S>(method: M, state: S) -> FilterState
where
    M: Filter<S> + Digested<S> + ToRecord<S> + 'static,
    S: SaveState + 'static,
{
    Box::new(StatefulSlot::filter(method, state))
}

/// The filter with these coefficients, and its memory for `dim` parameters.
fn recursive(taps: &Coefficients, dim: usize) -> Result<(Iir<ORDER>, IirState<Vec<f32>, ORDER>), ConfigError> {
    let iir = taps.to_core().map_err(|error| match error.parameter {
        "a filter's order" => ConfigError { must_be: "at most 16", ..error },
        _ => error,
    })?;
    let memory = vec![0.0; iir.order() * dim];
    Ok((iir, IirState::new(memory)))
}

/// Per-sample momentum with these iterates and this factor, normalised or not, over the filter `inner`.
fn momentum<F, S>(
    (iterates, beta, is_normalised): (usize, f64, bool),
    inner: F,
    state: S,
    dim: usize,
) -> Result<FilterState, ConfigError>
where
    F: Filter<S> + Digested<S> + ToRecord<S> + 'static,
    S: SaveState + 'static,
{
    let new = if is_normalised { PerSampleMomentum::<F, ORDER>::new } else { PerSampleMomentum::unnormalised };
    let momentum = new(iterates, beta, inner)?;
    let past = vec![0.0; momentum.iterates_len(dim)];
    Ok(held(momentum, PerSampleMomentumState::new(past, state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_kept_to_the_largest_order() {
        let taps = Coefficients { a: vec![0.01; ORDER], b: vec![0.5; ORDER + 1] };
        let momentum = FilterChoice::of_name("dp-pmlf").unwrap().with_taps(&taps);
        assert_eq!(momentum.taps(), Some(&taps));
        assert!(momentum.build(1).is_ok());
        let long = Coefficients { a: vec![], b: vec![1.0; ORDER + 20] };
        let error = FilterChoice::of_name("doppler").unwrap().with_taps(&long).build(1).map(drop).unwrap_err();
        assert_eq!((error.parameter, error.must_be), ("a filter's order", "at most 16"));
        assert_eq!(FilterChoice::default().taps(), None);
    }
}
