//! The optimizers of the core by their settings.

use super::stateful::{AnyOptimizer, AnyState};
use damper_core::error::ConfigError;
use damper_core::optimizer::{
    AdaGrad, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState, Sgd, SgdState,
};

/// How parameters follow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    /// SGD with momentum (0: none), Nesterov's form and weight decay.
    Sgd {
        /// `μ`.
        momentum: f32,
        /// Nesterov's form.
        nesterov: bool,
        /// `λ`.
        weight_decay: f32,
    },
    /// Adam; with decoupled weight decay, AdamW.
    Adam {
        /// `β₁`.
        beta1: f64,
        /// `β₂`.
        beta2: f64,
        /// `ε`.
        epsilon: f32,
        /// `λ`.
        weight_decay: f64,
        /// Whether the second moment, too, is of the filtered gradient: DiSK's Adam.
        filtered_second: bool,
    },
    /// Adam with `max(√v̂, ε)` for the denominator: DOPPLER's Algorithm 3.
    FlooredAdam {
        /// `β₁`.
        beta1: f64,
        /// `β₂`.
        beta2: f64,
        /// `ε`.
        epsilon: f32,
        /// `λ`.
        weight_decay: f64,
        /// Whether the second moment, too, is of the filtered gradient.
        filtered_second: bool,
    },
    /// DP-AdamBC: Adam whose second moment is freed of the noise's.
    AdamBc {
        /// `β₁`.
        beta1: f64,
        /// `β₂`.
        beta2: f64,
        /// `γ′`; by the noise if not given.
        floor: Option<f32>,
        /// `λ`.
        weight_decay: f64,
    },
    /// AdaGrad.
    AdaGrad {
        /// `ε`.
        epsilon: f32,
        /// `λ`.
        weight_decay: f32,
    },
    /// RMSprop.
    RmsProp {
        /// `α`.
        alpha: f64,
        /// `ε`.
        epsilon: f32,
        /// `λ`.
        weight_decay: f32,
    },
}

/// What weight decay is to an optimizer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Decay {
    None,
    /// Part of the gradient.
    Penalty,
    /// `λ`, apart from it.
    Decoupled(f64),
}

fn adam(beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64, filtered_second: bool) -> Result<Adam, ConfigError> {
    let adam = Adam::new(beta1, beta2, epsilon, weight_decay)?;
    Ok(if filtered_second { adam.with_filtered_second_moment() } else { adam })
}

impl Rule {
    /// The optimizer and its state for `dim` parameters.
    pub(super) fn build(self, dim: usize) -> Result<(AnyOptimizer, AnyState), ConfigError> {
        let zeros = || vec![0.0; dim];
        Ok(match self {
            Self::Sgd { momentum, nesterov, weight_decay } => {
                let sgd = Sgd::new(momentum, nesterov, weight_decay)?;
                AnyOptimizer::new(sgd, SgdState { momentum: vec![0.0; sgd.momentum_len(dim)] })
            }
            Self::Adam { beta1, beta2, epsilon, weight_decay, filtered_second } => {
                let adam = adam(beta1, beta2, epsilon, weight_decay, filtered_second)?;
                AnyOptimizer::new(adam, AdamState::new(zeros(), zeros()))
            }
            Self::FlooredAdam { beta1, beta2, epsilon, weight_decay, filtered_second } => {
                let adam = adam(beta1, beta2, epsilon, weight_decay, filtered_second)?;
                AnyOptimizer::new(adam.with_floored_denominator(), AdamState::new(zeros(), zeros()))
            }
            Self::AdamBc { beta1, beta2, floor, weight_decay } => {
                let adam = match floor {
                    Some(floor) => AdamBc::new(beta1, beta2, floor, weight_decay)?,
                    None => AdamBc::new(beta1, beta2, f32::MIN_POSITIVE, weight_decay)?.with_floor_by_noise(),
                };
                AnyOptimizer::new(adam, AdamBcState::new(zeros(), zeros()))
            }
            Self::AdaGrad { epsilon, weight_decay } => {
                AnyOptimizer::new(AdaGrad::new(epsilon, weight_decay)?, AdaGradState { sum: zeros() })
            }
            Self::RmsProp { alpha, epsilon, weight_decay } => {
                AnyOptimizer::new(RmsProp::new(alpha, epsilon, weight_decay)?, RmsPropState { second: zeros() })
            }
        })
    }

    pub(super) fn decay(self) -> Decay {
        match self {
            Self::Sgd { weight_decay, .. }
            | Self::AdaGrad { weight_decay, .. }
            | Self::RmsProp { weight_decay, .. } => {
                if weight_decay == 0.0 {
                    Decay::None
                } else {
                    Decay::Penalty
                }
            }
            Self::Adam { weight_decay, .. }
            | Self::FlooredAdam { weight_decay, .. }
            | Self::AdamBc { weight_decay, .. } => {
                if weight_decay == 0.0 {
                    Decay::None
                } else {
                    Decay::Decoupled(weight_decay)
                }
            }
        }
    }
}
