//! Optimizers, and what may stand around them: AdaGrad-norm step sizes, or GaLore.

use super::MISMATCH;
use crate::TrainError;
use crate::galore::{Decay, Form, GaLore, GaLoreState, LowRank};
use damper_core::error::{CallError, ConfigError};
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamBcStep, AdamState, AdamStep,
    Begin, Floored, Optimizer, RmsProp, RmsPropState, Sgd, SgdState, WeightedNorm, WeightedNormState,
};
use damper_core::private::Released;
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

/// An optimizer of the core.
#[derive(Clone, Copy)]
pub(crate) enum AnyRule {
    Sgd(Sgd),
    Adam(Adam),
    FlooredAdam(Adam<Floored>),
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

fn adam(beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64, filtered_second: bool) -> Result<Adam, ConfigError> {
    let adam = Adam::new(beta1, beta2, epsilon, weight_decay)?;
    Ok(if filtered_second { adam.with_filtered_second_moment() } else { adam })
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
            Self::Adam { beta1, beta2, epsilon, weight_decay, filtered_second } => {
                let adam = adam(beta1, beta2, epsilon, weight_decay, filtered_second)?;
                (AnyRule::Adam(adam), AnyRuleState::Adam(AdamState::new(zeros(), zeros())))
            }
            Self::FlooredAdam { beta1, beta2, epsilon, weight_decay, filtered_second } => {
                let adam = adam(beta1, beta2, epsilon, weight_decay, filtered_second)?.with_floored_denominator();
                (AnyRule::FlooredAdam(adam), AnyRuleState::Adam(AdamState::new(zeros(), zeros())))
            }
            Self::AdamBc { beta1, beta2, floor, weight_decay } => (
                AnyRule::AdamBc(match floor {
                    Some(floor) => AdamBc::new(beta1, beta2, floor, weight_decay)?,
                    None => AdamBc::new(beta1, beta2, f32::MIN_POSITIVE, weight_decay)?.with_floor_by_noise(),
                }),
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

impl AnyRuleState {
    /// Averages of gradients, one a coordinate; empty where the optimizer keeps none.
    pub(crate) fn first_moments(&mut self) -> &mut [f32] {
        match self {
            Self::Sgd(state) => &mut state.momentum,
            Self::Adam(state) => &mut state.first,
            Self::AdamBc(state) => &mut state.first,
            Self::AdaGrad(_) | Self::RmsProp(_) => &mut [],
        }
    }
}

impl Optimizer<AnyRuleState> for AnyRule {
    type Step = AnyStep;

    fn check(&self, state: &AnyRuleState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::Sgd(rule), AnyRuleState::Sgd(state)) => rule.check(state, dim),
            (Self::Adam(rule), AnyRuleState::Adam(state)) => rule.check(state, dim),
            (Self::FlooredAdam(rule), AnyRuleState::Adam(state)) => rule.check(state, dim),
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
            (Self::FlooredAdam(rule), AnyRuleState::Adam(state)) => AnyStep::Adam(rule.begin(state, begin)),
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
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        match (self, step, state) {
            (Self::Sgd(rule), AnyStep::Rate(step), AnyRuleState::Sgd(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::Adam(rule), AnyStep::Adam(step), AnyRuleState::Adam(state)) => {
                rule.update(step, state, at, params, filtered, released);
            }
            (Self::FlooredAdam(rule), AnyStep::Adam(step), AnyRuleState::Adam(state)) => {
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

impl Digested<AnyRuleState> for AnyRule {
    fn add_to(&self, state: &AnyRuleState, digest: &mut Digest) {
        match (self, state) {
            (Self::Sgd(rule), AnyRuleState::Sgd(state)) => rule.add_to(state, digest),
            (Self::Adam(rule), AnyRuleState::Adam(state)) => rule.add_to(state, digest),
            (Self::FlooredAdam(rule), AnyRuleState::Adam(state)) => rule.add_to(state, digest),
            (Self::AdamBc(rule), AnyRuleState::AdamBc(state)) => rule.add_to(state, digest),
            (Self::AdaGrad(rule), AnyRuleState::AdaGrad(state)) => rule.add_to(state, digest),
            (Self::RmsProp(rule), AnyRuleState::RmsProp(state)) => rule.add_to(state, digest),
            _ => unreachable!("{MISMATCH}"),
        }
    }
}

/// A rule, or a rule with AdaGrad-norm step sizes, or within GaLore.
#[derive(Clone, Copy)]
pub(crate) enum AnyOptimizer {
    Plain(AnyRule),
    Norm(AdaGradNorm<AnyRule>),
    Weighted(WeightedNorm<AnyRule>),
    GaLore(GaLore),
}

/// Its memory.
pub(crate) enum AnyState {
    Plain(AnyRuleState),
    Norm(AdaGradNormState<AnyRuleState>),
    Weighted(WeightedNormState<AnyRuleState>),
    GaLore(GaLoreState),
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

    /// The optimizer and its memory for tensors of these forms.
    pub(crate) fn build(self, forms: &[Form]) -> Result<(AnyOptimizer, AnyState), ConfigError> {
        if let Some(settings) = self.galore {
            let build = |dim| self.rule.build(dim);
            let (optimizer, state) = GaLore::build(settings, self.rule.decay(), forms, build)?;
            return Ok((AnyOptimizer::GaLore(optimizer), AnyState::GaLore(state)));
        }
        let (rule, state) = self.rule.build(forms.iter().map(|form| form.rows * form.columns).sum())?;
        Ok(match self.norm_step {
            None => (AnyOptimizer::Plain(rule), AnyState::Plain(state)),
            Some(NormStep { initial, floor, subtract_noise }) => {
                let norm = AdaGradNorm::new(initial, floor, subtract_noise, rule)?;
                match self.norm_weight {
                    None => (AnyOptimizer::Norm(norm), AnyState::Norm(AdaGradNormState::new(state))),
                    Some((weight, period)) => (
                        AnyOptimizer::Weighted(WeightedNorm::new(norm, weight, period)?),
                        AnyState::Weighted(WeightedNormState::new(state)),
                    ),
                }
            }
        })
    }
}

impl AnyOptimizer {
    /// What recordings compare of its memory; none without memory, nor of GaLore's, which no recording holds.
    pub(crate) fn digest(&self, state: &AnyState) -> Option<Digest> {
        let mut digest = Digest::default();
        match (self, state) {
            (Self::Plain(_), AnyState::Plain(AnyRuleState::Sgd(state))) if state.momentum.is_empty() => return None,
            (Self::Plain(rule), AnyState::Plain(state)) => rule.add_to(state, &mut digest),
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.add_to(state, &mut digest),
            (Self::Weighted(optimizer), AnyState::Weighted(state)) => optimizer.add_to(state, &mut digest),
            _ => return None,
        }
        Some(digest)
    }
}

impl Optimizer<AnyState> for AnyOptimizer {
    type Step = AnyStep;

    fn check(&self, state: &AnyState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => optimizer.check(state, dim),
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.check(state, dim),
            (Self::Weighted(optimizer), AnyState::Weighted(state)) => optimizer.check(state, dim),
            (Self::GaLore(optimizer), AnyState::GaLore(state)) => optimizer.check(state, dim),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn looks_ahead(&self) -> bool {
        matches!(self, Self::Norm(_) | Self::Weighted(_))
    }

    fn look(&self, state: &mut AnyState, at: usize, released: &Released<'_>) {
        match (self, state) {
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.look(state, at, released),
            (Self::Weighted(optimizer), AnyState::Weighted(state)) => optimizer.look(state, at, released),
            _ => {}
        }
    }

    fn begin(&self, state: &mut AnyState, begin: Begin) -> AnyStep {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => optimizer.begin(state, begin),
            (Self::Norm(optimizer), AnyState::Norm(state)) => optimizer.begin(state, begin),
            (Self::Weighted(optimizer), AnyState::Weighted(state)) => optimizer.begin(state, begin),
            (Self::GaLore(optimizer), AnyState::GaLore(state)) => optimizer.begin(state, begin),
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn update(
        &self,
        step: AnyStep,
        state: &mut AnyState,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        match (self, state) {
            (Self::Plain(optimizer), AnyState::Plain(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            (Self::Norm(optimizer), AnyState::Norm(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            (Self::Weighted(optimizer), AnyState::Weighted(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            (Self::GaLore(optimizer), AnyState::GaLore(state)) => {
                optimizer.update(step, state, at, params, filtered, released);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn end(&self, step: AnyStep, state: &mut AnyState, params: &mut [f32]) {
        if let (Self::GaLore(optimizer), AnyState::GaLore(state)) = (self, state) {
            optimizer.end(step, state, params);
        }
    }
}
