//! Optimizers chosen at run time: the core's types behind one enum, the host's only place for such a choice.

use damper_core::error::{CallError, ConfigError};
use damper_core::optimizer::{Adam, AdamState, AdamStep, Begin, Optimizer, Sgd, SgdState};
use damper_core::private::Released;

/// Which optimizer, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OptimizerChoice {
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
}

/// An optimizer of the core.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnyOptimizer {
    Sgd(Sgd),
    Adam(Adam),
}

/// Its memory.
pub(super) enum AnyState {
    Sgd(SgdState<Vec<f32>>),
    Adam(AdamState<Vec<f32>>),
}

/// What the pieces of one of its steps share.
#[derive(Clone, Copy)]
pub(super) enum AnyStep {
    Sgd(f32),
    Adam(AdamStep),
}

impl OptimizerChoice {
    /// The optimizer and its memory for `dim` parameters.
    pub(super) fn build(self, dim: usize) -> Result<(AnyOptimizer, AnyState), ConfigError> {
        Ok(match self {
            Self::Sgd { momentum, nesterov, weight_decay } => {
                let sgd = Sgd::new(momentum, nesterov, weight_decay)?;
                let state = SgdState { momentum: vec![0.0; sgd.momentum_len(dim)] };
                (AnyOptimizer::Sgd(sgd), AnyState::Sgd(state))
            }
            Self::Adam { beta1, beta2, epsilon, weight_decay } => {
                let adam = Adam::new(beta1, beta2, epsilon, weight_decay)?;
                let state = AdamState::new(vec![0.0; dim], vec![0.0; dim]);
                (AnyOptimizer::Adam(adam), AnyState::Adam(state))
            }
        })
    }
}

/// State and step are always the optimizer's own: [`OptimizerChoice::build`] makes them together.
const MISMATCH: &str = "an optimizer meets its own state";

impl Optimizer<AnyState> for AnyOptimizer {
    type Step = AnyStep;

    fn check(&self, state: &AnyState, dim: usize) -> Result<(), CallError> {
        match (self, state) {
            (Self::Sgd(sgd), AnyState::Sgd(state)) => sgd.check(state, dim),
            (Self::Adam(adam), AnyState::Adam(state)) => adam.check(state, dim),
            _ => Err(CallError::Order(MISMATCH)),
        }
    }

    fn begin(&self, state: &mut AnyState, begin: Begin) -> AnyStep {
        match (self, state) {
            (Self::Sgd(sgd), AnyState::Sgd(state)) => AnyStep::Sgd(sgd.begin(state, begin)),
            (Self::Adam(adam), AnyState::Adam(state)) => AnyStep::Adam(adam.begin(state, begin)),
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
        match (self, step, state) {
            (Self::Sgd(sgd), AnyStep::Sgd(step), AnyState::Sgd(state)) => {
                sgd.update(step, state, at, params, filtered, released);
            }
            (Self::Adam(adam), AnyStep::Adam(step), AnyState::Adam(state)) => {
                adam.update(step, state, at, params, filtered, released);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }
}
