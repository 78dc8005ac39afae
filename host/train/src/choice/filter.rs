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

/// A filter on released gradients, before the optimizer.
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
        /// True if the output is divided by the filter's step response.
        bias_correction: bool,
    },
    /// A filter whose taps follow the gradients' autocorrelation
    AdaptiveFir {
        /// Number of past gradients.
        lags: usize,
        /// Decay of the running averages.
        memory: f64,
        /// Lower bound on the squared norm.
        floor: f64,
    },
    /// Per-sample momentum and low-pass filter
    DpPmlf {
        /// dp-pmlf, inner-outer: number of iterates that are combined per sample, including the current iterate, 1 to
        /// 16 [default: 2]
        #[schemars(extend("x-value" = "K"))]
        iterates: usize,
        /// dp-pmlf, inner-outer: factor of the combination, -0.9 to 1 [default: dp-pmlf 0.1, inner-outer 0.9]
        #[schemars(extend("x-value" = "B"))]
        beta: f64,
        /// The recursive filter of released gradients.
        taps: Coefficients,
        /// True if the output is divided by the filter's step response.
        bias_correction: bool,
    },
    /// Inner and outer momentum (Xiao et al.)
    InnerOuter {
        /// As in dp-pmlf.
        #[schemars(extend("x-value" = "K"))]
        iterates: usize,
        /// As in dp-pmlf, but the combination is not normalised.
        #[schemars(extend("x-value" = "B"))]
        beta: f64,
        /// The recursive filter of released gradients.
        taps: Coefficients,
        /// True if the output is divided by the filter's step response.
        bias_correction: bool,
    },
    /// Simplified Kalman filter
    Disk {
        /// disk: the filter's gain, 0.001 to 1 (1: no filter) [default: 0.7]
        #[schemars(extend("x-value" = "K", "x-conflict" = "gain_recursion"))]
        kappa: f64,
        /// disk: the gain follows the scalar recursion with these variances: of the noise, of the difference, of the
        /// gradient
        #[schemars(extend("x-value" = "W,H,V", "x-conflict" = "kappa"))]
        gain_recursion: Option<[f64; 3]>,
        /// disk: `one` evaluates one gradient per sample, at the point (1-K)/K steps ahead. A number evaluates two,
        /// with the second gradient this many steps ahead [default: one]
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
    /// Returns the recursive filter, if the choice has one.
    #[must_use]
    pub fn taps(&self) -> Option<&Coefficients> {
        match self {
            Self::Doppler { taps, .. } | Self::DpPmlf { taps, .. } | Self::InnerOuter { taps, .. } => Some(taps),
            Self::None | Self::AdaptiveFir { .. } | Self::Disk { .. } => None,
        }
    }

    /// Replaces the recursive filter, if the choice has one.
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

    /// Turns off the division by the step response, if the choice has a recursive filter.
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

    /// Returns the number of gradients per sample in a step, after the history is full.
    #[must_use]
    pub fn gradients_per_sample(&self) -> usize {
        let Ok((_, mut state)) = self.build(0) else { return 1 };
        (0..=ORDER).for_each(|_| state.begin());
        state.eval_points()
    }

    /// Builds the filter and its state for `dim` parameters.
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

/// Builds the recursive filter with these coefficients, and its state for `dim` parameters.
fn recursive(taps: &Coefficients, dim: usize) -> Result<(Iir<ORDER>, IirState<Vec<f32>, ORDER>), ConfigError> {
    let iir = taps.to_core().map_err(|error| match error.parameter {
        "a filter's order" => ConfigError { must_be: "at most 16", ..error },
        _ => error,
    })?;
    let memory = vec![0.0; iir.order() * dim];
    Ok((iir, IirState::new(memory)))
}

/// Builds per-sample momentum with these iterates and this factor, normalised or not, over the filter `inner`.
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
