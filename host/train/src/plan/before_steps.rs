//! The releases before the first step: their noise, and the single event that they compose to.
//!
//! # Privacy
//!
//! Each is a discrete Gaussian release of all training rows at a rate of 1, and bounds the contribution of a row. A
//! later release may depend on the values of an earlier release. Such a composition of Gaussian releases costs the same
//! as a single Gaussian release (Dong, Roth and Su, Gaussian Differential Privacy, 2022, corollary 2). Its inverse
//! variance is the sum of theirs, in units of each bound. Discrete noise does not cost more.

use crate::config::TrainConfig;
use crate::config::normalize_private::NormalizePrivate;
use crate::config::release_non_finite::ReleaseNonFinite;
use crate::error::TrainError;
use damper_accounting::{Plan, upward};
use damper_core::accounting::SampledGaussian;
use damper_onnx::SettingError;

/// The events of the releases with known noise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct BeforeSteps {
    /// Means and deviations of the features.
    pub(crate) normalize: Option<SampledGaussian>,
    /// The number of rows without a finite gradient.
    pub(crate) non_finite: Option<SampledGaussian>,
}

impl BeforeSteps {
    /// Returns the events of a run with this configuration.
    pub(crate) fn of(config: &TrainConfig) -> Result<Self, TrainError> {
        Ok(Self {
            normalize: config.normalize_private.as_ref().map_or(Ok(None), NormalizePrivate::event)?,
            non_finite: config.release_non_finite.as_ref().map_or(Ok(None), ReleaseNonFinite::event)?,
        })
    }

    /// Composes all of them into one event.
    pub(crate) fn joint(self) -> Result<Option<SampledGaussian>, TrainError> {
        Ok(match (self.normalize, self.non_finite) {
            (Some(one), Some(other)) => Some(one.and(other.multiplier())?),
            (one, other) => one.or(other),
        })
    }
}

/// Chooses the noise of each release whose multiplier satisfies `those`, for a run of at most ε `target`.
fn settle_those(config: &mut TrainConfig, target: f64, those: impl Fn(Option<f64>) -> bool) -> Result<(), TrainError> {
    let (accountant, delta) = (config.accountant, config.delta);
    if let Some(normalize) = config.normalize_private.as_mut().filter(|release| those(release.noise_multiplier)) {
        normalize.settle(accountant, target, delta)?;
    }
    if let Some(count) = config.release_non_finite.as_mut().filter(|release| those(release.noise_multiplier)) {
        count.settle(accountant, target, delta)?;
    }
    Ok(())
}

/// Chooses the noise that is not set, for a run of at most ε `target`.
pub(crate) fn settle(config: &mut TrainConfig, target: f64) -> Result<(), TrainError> {
    let given = [
        ("non_finite_noise_multiplier", config.release_non_finite.and_then(|count| count.noise_multiplier)),
        ("normalize_noise_multiplier", config.normalize_private.as_ref().and_then(|release| release.noise_multiplier)),
    ];
    settle_those(config, target, |_| true)?;
    let Some(joint) = BeforeSteps::of(config)?.joint()? else { return Ok(()) };
    let alone = Plan::constant(joint.rate(), joint.multiplier(), None, 1)?.epsilon(config.accountant, config.delta)?;
    // Noise chosen here leaves most of the budget, so only given noise can be too small.
    let given = given.into_iter().find_map(|(setting, multiplier)| Some((setting, multiplier?)));
    let Some((setting, multiplier)) = given.filter(|_| alone.epsilon >= target) else { return Ok(()) };
    let problem = format!(
        "the releases before the first step cost epsilon {} together, and all may cost {target}; raise it",
        upward(alone.epsilon)
    );
    Err(SettingError::new(setting, multiplier, problem).into())
}

/// Checks the given noise, for a run whose ε follows from its noise.
pub(crate) fn settle_given(config: &mut TrainConfig) -> Result<(), TrainError> {
    settle_those(config, f64::INFINITY, |multiplier| multiplier.is_some())
}

/// Chooses the noise that is not set, if the steps of `plan` alone determine the run's ε.
pub(crate) fn settle_open(config: &mut TrainConfig, plan: &Plan) -> Result<(), TrainError> {
    let normalize = config.normalize_private.iter().map(|release| release.noise_multiplier);
    let counts = config.release_non_finite.iter().map(|release| release.noise_multiplier);
    if normalize.chain(counts).all(|multiplier| multiplier.is_some()) {
        return Ok(());
    }
    let steps = plan.clone().with_release(None).epsilon(config.accountant, config.delta)?.epsilon;
    settle_those(config, steps, |multiplier| multiplier.is_none())
}
