//! The noise of a separate release before the first step: its event, and the default from the run's ε.

use crate::error::TrainError;
use damper_accounting::{Accountant, AccountingError, Plan, calibrate, upward};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::private::Mechanism as _;
use damper_onnx::SettingError;

/// Rules for the noise of one kind of release.
pub(crate) struct ReleaseNoise {
    /// Name of the setting of the noise multiplier.
    pub(crate) setting: &'static str,
    /// The bound on a row's contribution is `2^grid_bits` grid units.
    pub(crate) grid_bits: u32,
    /// The default as a multiple of the noise of one release at the whole ε.
    pub(crate) times: f64,
    /// The minimum and maximum of the default.
    pub(crate) chosen: [f64; 2],
    /// The accepted values, for error messages.
    pub(crate) given: &'static str,
}

impl ReleaseNoise {
    /// Returns the mechanism of a release with this multiplier, rounded up to the grid.
    pub(crate) fn mechanism(&self, multiplier: f64) -> Result<DiscreteGaussian<i64>, TrainError> {
        Ok(DiscreteGaussian::with_multiplier(Grid::new(self.grid_bits)?, multiplier)?)
    }

    /// Returns the event of a release with this multiplier.
    pub(crate) fn event(&self, multiplier: f64) -> Result<SampledGaussian, TrainError> {
        Ok(SampledGaussian::new(Rate::ONE, self.mechanism(multiplier)?.multiplier())?)
    }

    /// Returns the multiplier that the run uses: the given value, or the default for a run of at most ε `target` at
    /// `delta`.
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
