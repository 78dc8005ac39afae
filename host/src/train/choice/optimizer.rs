//! Optimizers, and AdaGrad-norm step sizes around them.

use super::MISMATCH;
use damper_core::error::{CallError, ConfigError};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamBcStep, AdamState, AdamStep,
    Begin, Optimizer, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::private::Released;

/// Which optimizer, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OptimizerChoice {
    /// How parameters follow.
    pub rule: Rule,
    /// Step sizes from the norms of released gradients, where asked for.
    pub norm_step: Option<NormStep>,
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
    },
    /// DP-AdamBC: Adam whose second moment is freed of the noise's.
    AdamBc {
        /// `β₁`.
        beta1: f64,
        /// `β₂`.
        beta2: f64,
        /// `γ′`.
        floor: f32,
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

/// An optimizer of the core.
#[derive(Clone, Copy)]
pub(crate) enum AnyRule {
    Sgd(Sgd),
    Adam(Adam),
    AdamBc(AdamBc),
    AdaGrad(AdaGrad),
    RmsProp(RmsProp),
}

/// Its memory.
pub(crate) enum AnyRuleState {
    Sgd(SgdState<Vec<f32>>),
    Adam(AdamState<Vec<f32>>),
    AdamBc(AdamBcState<Vec<f32>>),
    AdaGrad(AdaGradState<Vec<f32>>),
    RmsProp(RmsPropState<Vec<f32>>),
}

/// What the pieces of one of its steps share.
#[derive(Clone, Copy)]
pub(crate) enum AnyStep {
    /// A learning rate.
    Rate(f32),
    Adam(AdamStep),
    AdamBc(AdamBcStep),
}

impl Rule {
    /// The optimizer and its memory for `dim` parameters.
    fn build(self, dim: usize) -> Result<(AnyRule, AnyRuleState), ConfigError> {
        let zeros = || vec![0.0; dim];
        Ok(match self {
            Self::Sgd { momentum, nesterov, weight_decay } => {
                let sgd = Sgd::new(momentum, nesterov, weight_decay)?;
                let state = SgdState { momentum: vec![0.0; sgd.momentum_len(dim)] };
                (AnyRule::Sgd(sgd), AnyRuleState::Sgd(state))
            }
            Self::Adam { beta1, beta2, epsilon, weight_decay } => (
                AnyRule::Adam(Adam::new(beta1, beta2, epsilon, weight_decay)?),
                AnyRuleState::Adam(AdamState::new(zeros(), zeros())),
            ),
            Self::AdamBc { beta1, beta2, floor, weight_decay } => (
                AnyRule::AdamBc(AdamBc::new(beta1, beta2, floor, weight_decay)?),
                AnyRuleState::AdamBc(AdamBcState::new(zeros(), zeros())),
            ),
            Self::AdaGrad { epsilon, weight_decay } => (
                AnyRule::AdaGrad(AdaGrad::new(epsilon, weight_decay)?),
                AnyRuleState::AdaGrad(AdaGradState { sum: zeros() }),
            ),
            Self::RmsProp { alpha, epsilon, weight_decay } => (
                AnyRule::RmsProp(RmsProp::new(alpha, epsilon, weight_decay)?),
                AnyRuleState::RmsProp(RmsPropState { second: zeros() }),
            ),
        })
    }
}

impl Optimizer<AnyRuleState> for AnyRule {
    type Step = AnyStep;

    fn check(&self, state: &AnyRuleState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::Sgd(rule), AnyRuleState::Sgd(state)) => rule.check(state, dim),
            (Self::Adam(rule), AnyRuleState::Adam(state)) => rule.check(state, dim),
            (Self::AdamBc(rule), AnyRuleState::AdamBc(state)) => rule.check(state, dim),
            (Self::AdaGrad(rule), AnyRuleState::AdaGrad(state)) => rule.check(state, dim),
            (Self::RmsProp(rule), AnyRuleState::RmsProp(state)) => rule.check(state, dim),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn begin(&self, state: &mut AnyRuleState, begin: Begin) -> AnyStep {
        match (self, state) {
            (Self::Sgd(rule), AnyRuleState::Sgd(state)) => AnyStep::Rate(rule.begin(state, begin)),
            (Self::Adam(rule), AnyRuleState::Adam(state)) => AnyStep::Adam(rule.begin(state, begin)),
            (Self::AdamBc(rule), AnyRuleState::AdamBc(state)) => AnyStep::AdamBc(rule.begin(state, begin)),
            (Self::AdaGrad(rule), AnyRuleState::AdaGrad(state)) => AnyStep::Rate(rule.begin(state, begin)),
            (Self::RmsProp(rule), AnyRuleState::RmsProp(state)) => AnyStep::Rate(rule.begin(state, begin)),
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn update(
        &self,
        step: AnyStep,
        state: &mut AnyRuleState,
        at: usize,
        params: &mut [f32],
        filtered: &[f32],
        released: &Released<'_>,
    ) {
        match (self, step, state) {
            (Self::Sgd(rule), AnyStep::Rate(step), AnyRuleState::Sgd(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::Adam(rule), AnyStep::Adam(step), AnyRuleState::Adam(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::AdamBc(rule), AnyStep::AdamBc(step), AnyRuleState::AdamBc(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::AdaGrad(rule), AnyStep::Rate(step), AnyRuleState::AdaGrad(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::RmsProp(rule), AnyStep::Rate(step), AnyRuleState::RmsProp(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }
}

/// A rule, or a rule with AdaGrad-norm step sizes.
#[derive(Clone, Copy)]
pub(crate) enum AnyOptimizer {
    Plain(AnyRule),
    Norm(AdaGradNorm<AnyRule>),
}

/// Its memory.
pub(crate) enum AnyState {
    Plain(AnyRuleState),
    Norm(AdaGradNormState<AnyRuleState>),
}

impl OptimizerChoice {
    /// The optimizer and its memory for `dim` parameters.
    pub(crate) fn build(self, dim: usize) -> Result<(AnyOptimizer, AnyState), ConfigError> {
        let (rule, state) = self.rule.build(dim)?;
        Ok(match self.norm_step {
            None => (AnyOptimizer::Plain(rule), AnyState::Plain(state)),
            Some(NormStep { initial, floor, subtract_noise }) => (
                AnyOptimizer::Norm(AdaGradNorm::new(initial, floor, subtract_noise, rule)?),
                AnyState::Norm(AdaGradNormState::new(state)),
            ),
        })
    }
}

impl Optimizer<AnyState> for AnyOptimizer {
    type Step = AnyStep;

    fn check(&self, state: &AnyState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => optimizer.check(state, dim),
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.check(state, dim),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn looks_ahead(&self) -> bool {
        matches!(self, Self::Norm(_))
    }

    fn look(&self, state: &mut AnyState, at: usize, released: &Released<'_>) {
        if let (Self::Norm(optimizer), AnyState::Norm(state)) = (self, state) {
            optimizer.look(state, at, released);
        }
    }

    fn begin(&self, state: &mut AnyState, begin: Begin) -> AnyStep {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => optimizer.begin(state, begin),
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.begin(state, begin),
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn update(
        &self,
        step: AnyStep,
        state: &mut AnyState,
        at: usize,
        params: &mut [f32],
        filtered: &[f32],
        released: &Released<'_>,
    ) {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            (Self::Norm(optimizer), AnyState::Norm(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }
}
