//! The noise of a release of its own before the first step: the default from what the run may cost, and its event.

use crate::error::TrainError;
use damper_accounting::{Accountant, AccountingError, Plan, calibrate, upward};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::private::Mechanism as _;
use damper_onnx::SettingError;

/// Rules for the noise of one kind of release.
pub(crate) struct ReleaseNoise {
    /// The setting of its multiplier.
    pub(crate) setting: &'static str,
    /// The bound on what a row adds is so many powers of two of grid units.
    pub(crate) grid_bits: u32,
    /// The default is so many times the noise of one release at the whole ε.
    pub(crate) times: f64,
    /// The least and the largest default.
    pub(crate) chosen: [f64; 2],
    /// Numbers that may be given.
    pub(crate) given: &'static str,
}

impl ReleaseNoise {
    /// The mechanism of a release with this multiplier, rounded up to the grid.
    pub(crate) fn mechanism(&self, multiplier: f64) -> Result<DiscreteGaussian<i64>, TrainError> {
        Ok(DiscreteGaussian::with_multiplier(Grid::new(self.grid_bits)?, multiplier)?)
    }

    /// The event of a release with this multiplier.
    pub(crate) fn event(&self, multiplier: f64) -> Result<SampledGaussian, TrainError> {
        Ok(SampledGaussian::new(Rate::ONE, self.mechanism(multiplier)?.multiplier())?)
    }

    /// The multiplier that runs: of the one that is given, or of the default of a run of at most ε `target` at `delta`.
    pub(crate) fn settle(
        &self,
        given: Option<f64>,
        accountant: Accountant,
        target: f64,
        delta: f64,
    ) -> Result<f64, TrainError> {
        let [least, most] = self.chosen;
        let multiplier = match given {
            Some(multiplier) => multiplier,
            None => match calibrate(accountant, target, delta, Rate::ONE, 1) {
                Ok(found) => (self.times * found.multiplier).clamp(least, most),
                Err(AccountingError::TooLarge(_)) => least,
                Err(error) => return Err(error.into()),
            },
        };
        let refuse = |problem: String| SettingError::new(self.setting, multiplier, problem);
        let mechanism = self.mechanism(multiplier).ok().filter(|mechanism| mechanism.check_noise().is_ok());
        let found = mechanism.ok_or_else(|| refuse(format!("give a number {}", self.given)))?.multiplier();
        let alone = Plan::constant(Rate::ONE, found, None, 1)?.epsilon(accountant, delta)?.epsilon;
        if given.is_some() && alone >= target {
            let cost = upward(alone);
            return Err(
                refuse(format!("the release alone costs epsilon {cost}, and all may cost {target}; raise it")).into()
            );
        }
        Ok(found)
    }
}
