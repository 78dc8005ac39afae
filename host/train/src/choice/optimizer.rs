//! Optimizers, and their wrappers: AdaGrad-norm step sizes and GaLore.

mod rule;
mod stateful;

pub(crate) use rule::WeightDecay;
pub use rule::{AdamDenominator, OptimizerRule, SecondMoment};
pub use stateful::OptimizerState;

use self::stateful::boxed;
use crate::TrainError;
use crate::engine::galore::{GaLore, GaLoreState, LowRank, MatrixShape};
use damper_core::error::ConfigError;
use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, WeightedNorm, WeightedNormState};
use damper_core::slots::{OptimizerSlot, StatefulSlot};
use damper_onnx::SettingError;
use std::num::NonZeroU32;

/// An optimizer with its settings and wrappers.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct OptimizerChoice {
    /// The update rule.
    pub rule: OptimizerRule,
    /// Step sizes from the norms of released gradients, if requested.
    pub norm_step: Option<NormStep>,
    /// ADP's `β_t`: the AdaGrad-norm weight `β` in the first of this many steps.
    pub norm_weight: Option<(f64, NonZeroU32)>,
    /// A low-rank projection of the matrices, if requested.
    pub galore: Option<LowRank>,
}

impl From<OptimizerRule> for OptimizerChoice {
    /// Uses `rule` without wrappers.
    fn from(rule: OptimizerRule) -> Self {
        Self { rule, norm_step: None, norm_weight: None, galore: None }
    }
}

/// AdaGrad-norm: the learning rate divided by `b_{t+1}`, with `b²_{t+1} = b²_t + max(‖g_t‖², ν)` of released gradients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NormStep {
    /// `b_0²`.
    pub initial: f64,
    /// `ν`.
    pub floor: f64,
    /// True if the noise's expected share of the norm is subtracted.
    pub subtract_noise: bool,
}

impl OptimizerChoice {
    /// Returns an error if the parts do not compose.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        if self.galore.is_some() && self.norm_step.is_some() {
            let problem = "`norm_step` sets the step size by the norm of the whole gradient, of which `galore` moves along a few \
                           directions; leave one of them out";
            return Err(SettingError::new("galore", "", problem).into());
        }
        Ok(())
    }

    /// Builds the optimizer and its state for tensors of these shapes.
    pub(crate) fn build(self, forms: &[MatrixShape]) -> Result<(OptimizerSlot, OptimizerState), ConfigError> {
        if let Some(settings) = self.galore {
            let (optimizer, state) = self.build_galore(settings, forms)?;
            return Ok(boxed(StatefulSlot::optimizer(optimizer, state)));
        }
        let (rule, state) = self.rule.build(forms.iter().map(|form| form.rows * form.columns).sum())?;
        Ok(match (self.norm_step, self.norm_weight) {
            (None, _) => (rule, state),
            (Some(NormStep { initial, floor, subtract_noise }), weight) => {
                let norm = AdaGradNorm::new(initial, floor, subtract_noise, rule)?;
                match weight {
                    None => boxed(StatefulSlot::optimizer(norm, AdaGradNormState::new(state))),
                    Some((weight, period)) => boxed(StatefulSlot::optimizer(
                        WeightedNorm::new(norm, weight, period)?,
                        WeightedNormState::new(state),
                    )),
                }
            }
        })
    }

    /// Builds GaLore over the rule.
    pub(crate) fn build_galore(
        self,
        settings: LowRank,
        forms: &[MatrixShape],
    ) -> Result<(GaLore, GaLoreState), ConfigError> {
        GaLore::build(settings, self.rule.weight_decay(), forms, |dim| self.rule.build(dim))
    }
}
