//! Optimizers by name, with their settings.

use super::stateful::{OptimizerState, boxed};
use crate::choice::by_name::ByName;
use damper_core::error::ConfigError;
use damper_core::optimizer::{
    AdaGrad, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::slots::{OptimizerSlot, StatefulSlot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The update rule of parameters from released gradients: an optimizer and its settings.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum OptimizerRule {
    /// Stochastic gradient descent.
    Sgd {
        /// sgd, momentum, nesterov: the share of the last step that is kept, from 0 to below 1 [default: sgd 0, others
        /// 0.9]
        #[schemars(extend("x-value" = "M"))]
        momentum: f32,
        /// sgd, momentum: Nesterov's form
        #[schemars(extend("x-value" = ""))]
        nesterov: bool,
        /// adamw, adam-bc: decoupled decay, others: L2 penalty, adam does not have it [default: 0, adamw 0.01]
        #[schemars(extend("x-value" = "W"))]
        weight_decay: f32,
    },
    /// Adam, with decoupled weight decay (AdamW).
    Adam {
        /// adam, adamw, adam-bc: decay of the first and second moment [default: 0.9,0.999, with doppler 0,0.999, as its
        /// filter is the first moment]
        #[schemars(extend("x-value" = "B1,B2"))]
        betas: [f64; 2],
        /// adam, adamw, adagrad, rmsprop: term added to the root of the second moment. With `adam-bc`, lower bound on
        /// the second moment after the noise's share is subtracted [default: 1e-8, adagrad 1e-10, adam-bc by the noise]
        #[schemars(extend("x-value" = "E", "x-flag" = "adam_epsilon"))]
        epsilon: f32,
        /// Decoupled decay.
        #[schemars(extend("x-value" = "W"))]
        weight_decay: f64,
        /// The gradient that enters the second moment.
        second_moment: SecondMoment,
        /// The use of `epsilon` that keeps the denominator above 0.
        denominator: AdamDenominator,
    },
    /// DP-AdamBC: Adam with the noise's share subtracted from the second moment.
    AdamBc {
        /// As in Adam.
        #[schemars(extend("x-value" = "B1,B2"))]
        betas: [f64; 2],
        /// Lower bound on the second moment. It follows from the noise if not given.
        #[schemars(extend("x-value" = "E", "x-flag" = "adam_epsilon"))]
        floor: Option<f32>,
        /// Decoupled decay.
        #[schemars(extend("x-value" = "W"))]
        weight_decay: f64,
    },
    /// AdaGrad.
    Adagrad {
        /// Term added to the root of the second moment.
        #[schemars(extend("x-value" = "E", "x-flag" = "adam_epsilon"))]
        epsilon: f32,
        /// An L2 penalty.
        #[schemars(extend("x-value" = "W"))]
        weight_decay: f32,
    },
    /// RMSprop.
    Rmsprop {
        /// rmsprop: decay of the second moment [default: 0.99]
        #[schemars(extend("x-value" = "A"))]
        alpha: f64,
        /// Term added to the root of the second moment.
        #[schemars(extend("x-value" = "E", "x-flag" = "adam_epsilon"))]
        epsilon: f32,
        /// An L2 penalty.
        #[schemars(extend("x-value" = "W"))]
        weight_decay: f32,
    },
}

/// The gradient that enters Adam's second moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecondMoment {
    /// The released gradient.
    #[default]
    Released,
    /// The filtered gradient, as in DiSK's Adam.
    Filtered,
}

/// The use of Adam's `ε` that keeps the denominator above 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
// Keeps the name in the printed schema.
#[schemars(rename = "Denominator")]
pub enum AdamDenominator {
    /// `√v̂ + ε`.
    #[default]
    Added,
    /// `max(√v̂, ε)`: DOPPLER's Algorithm 3.
    Floored,
}

impl ByName for OptimizerRule {
    const SETTING: &'static str = "optimizer";

    fn named() -> Vec<(&'static str, Self)> {
        let sgd = |momentum, nesterov| Self::Sgd { momentum, nesterov, weight_decay: 0.0 };
        let betas = [0.9, 0.999];
        let adam = |weight_decay| {
            let (second_moment, denominator) = (SecondMoment::default(), AdamDenominator::default());
            Self::Adam { betas, epsilon: 1e-8, weight_decay, second_moment, denominator }
        };
        vec![
            ("sgd", sgd(0.0, false)),
            ("momentum", sgd(0.9, false)),
            ("nesterov", sgd(0.9, true)),
            ("adam", adam(0.0)),
            ("adamw", adam(0.01)),
            ("adam-bc", Self::AdamBc { betas, floor: None, weight_decay: 0.0 }),
            ("adagrad", Self::Adagrad { epsilon: 1e-10, weight_decay: 0.0 }),
            ("rmsprop", Self::Rmsprop { alpha: 0.99, epsilon: 1e-8, weight_decay: 0.0 }),
        ]
    }
}

impl Default for OptimizerRule {
    fn default() -> Self {
        Self::Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 }
    }
}

/// The treatment of weight decay by an optimizer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WeightDecay {
    None,
    /// Added to the gradient.
    Penalty,
    /// Decoupled from the gradient, with this `λ`.
    Decoupled(f64),
}

impl OptimizerRule {
    /// Builds the optimizer and its state for `dim` parameters.
    pub(super) fn build(&self, dim: usize) -> Result<(OptimizerSlot, OptimizerState), ConfigError> {
        let zeros = || vec![0.0; dim];
        Ok(match *self {
            Self::Sgd { momentum, nesterov, weight_decay } => {
                let sgd = Sgd::new(momentum, nesterov, weight_decay)?;
                let state = SgdState { momentum: vec![0.0; sgd.momentum_len(dim)] };
                boxed(StatefulSlot::optimizer(sgd, state))
            }
            Self::Adam { betas: [beta1, beta2], epsilon, weight_decay, second_moment, denominator } => {
                let adam = Adam::new(beta1, beta2, epsilon, weight_decay)?;
                let adam = match second_moment {
                    SecondMoment::Released => adam,
                    SecondMoment::Filtered => adam.with_filtered_second_moment(),
                };
                let state = AdamState::new(zeros(), zeros());
                match denominator {
                    AdamDenominator::Added => boxed(StatefulSlot::optimizer(adam, state)),
                    AdamDenominator::Floored => boxed(StatefulSlot::optimizer(adam.with_floored_denominator(), state)),
                }
            }
            Self::AdamBc { betas: [beta1, beta2], floor, weight_decay } => {
                let adam = match floor {
                    Some(floor) => AdamBc::new(beta1, beta2, floor, weight_decay)?,
                    None => AdamBc::new(beta1, beta2, f32::MIN_POSITIVE, weight_decay)?.with_floor_by_noise(),
                };
                boxed(StatefulSlot::optimizer(adam, AdamBcState::new(zeros(), zeros())))
            }
            Self::Adagrad { epsilon, weight_decay } => {
                let adagrad = AdaGrad::new(epsilon, weight_decay)?;
                boxed(StatefulSlot::optimizer(adagrad, AdaGradState { sum: zeros() }))
            }
            Self::Rmsprop { alpha, epsilon, weight_decay } => {
                let rmsprop = RmsProp::new(alpha, epsilon, weight_decay)?;
                boxed(StatefulSlot::optimizer(rmsprop, RmsPropState { second: zeros() }))
            }
        })
    }

    /// Returns the optimizer's weight decay.
    pub(super) fn weight_decay(&self) -> WeightDecay {
        match *self {
            Self::Adam { weight_decay, .. } | Self::AdamBc { weight_decay, .. } => match weight_decay {
                0.0 => WeightDecay::None,
                decay => WeightDecay::Decoupled(decay),
            },
            Self::Sgd { weight_decay, .. }
            | Self::Adagrad { weight_decay, .. }
            | Self::Rmsprop { weight_decay, .. } => {
                if weight_decay == 0.0 {
                    WeightDecay::None
                } else {
                    WeightDecay::Penalty
                }
            }
        }
    }
}
