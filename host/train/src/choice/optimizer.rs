//! Optimizers, and what may stand around them: AdaGrad-norm step sizes, or GaLore.

mod stateful;

pub(crate) use stateful::{AnyOptimizer, AnyState, State};

use crate::TrainError;
use crate::galore::{Decay, Form, GaLore, GaLoreState, LowRank};
use damper_core::error::ConfigError;
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState, WeightedNorm, WeightedNormState,
};
use std::num::NonZeroU32;

/// Which optimizer, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OptimizerChoice {
    /// How parameters follow.
    pub rule: Rule,
    /// Step sizes from the norms of released gradients, where asked for.
    pub norm_step: Option<NormStep>,
    /// ADP's `β_t`: the weight `β` of AdaGrad-norm at the first of so many steps.
    pub norm_weight: Option<(f64, NonZeroU32)>,
    /// A low-rank projection of the matrices, where asked for.
    pub galore: Option<LowRank>,
}

impl From<Rule> for OptimizerChoice {
    /// That rule and nothing around it.
    fn from(rule: Rule) -> Self {
        Self { rule, norm_step: None, norm_weight: None, galore: None }
    }
}

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

/// AdaGrad-norm: the learning rate over `b_{t+1}`, `b²_{t+1} = b²_t + max(‖g_t‖², ν)` of released gradients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NormStep {
    /// `b_0²`.
    pub initial: f64,
    /// `ν`.
    pub floor: f64,
    /// Whether the noise's own share of the norm is taken off.
    pub subtract_noise: bool,
}

fn adam(beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64, filtered_second: bool) -> Result<Adam, ConfigError> {
    let adam = Adam::new(beta1, beta2, epsilon, weight_decay)?;
    Ok(if filtered_second { adam.with_filtered_second_moment() } else { adam })
}

impl Rule {
    /// The optimizer and its state for `dim` parameters.
    fn build(self, dim: usize) -> Result<(AnyOptimizer, AnyState), ConfigError> {
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

    fn decay(self) -> Decay {
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

impl OptimizerChoice {
    /// Refuses what does not compose, with the reason.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        if self.galore.is_some() && self.norm_step.is_some() {
            return Err(TrainError::Flag(
                "--galore: --adagrad-norm sets the step size by the norm of the whole gradient, of which --galore moves \
                 along a few directions; leave one of them out"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The optimizer and its state for tensors of these forms.
    pub(crate) fn build(self, forms: &[Form]) -> Result<(AnyOptimizer, AnyState), ConfigError> {
        if let Some(settings) = self.galore {
            let (optimizer, state) = self.build_galore(settings, forms)?;
            return Ok(AnyOptimizer::new(optimizer, state));
        }
        let (rule, state) = self.rule.build(forms.iter().map(|form| form.rows * form.columns).sum())?;
        Ok(match (self.norm_step, self.norm_weight) {
            (None, _) => (rule, state),
            (Some(NormStep { initial, floor, subtract_noise }), weight) => {
                let norm = AdaGradNorm::new(initial, floor, subtract_noise, rule)?;
                match weight {
                    None => AnyOptimizer::new(norm, AdaGradNormState::new(state)),
                    Some((weight, period)) => {
                        AnyOptimizer::new(WeightedNorm::new(norm, weight, period)?, WeightedNormState::new(state))
                    }
                }
            }
        })
    }

    /// GaLore over the rule.
    pub(crate) fn build_galore(self, settings: LowRank, forms: &[Form]) -> Result<(GaLore, GaLoreState), ConfigError> {
        GaLore::build(settings, self.rule.decay(), forms, |dim| self.rule.build(dim))
    }
}
