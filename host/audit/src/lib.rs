//! Audits: checks of a run's privacy by its behaviour, not by its claim.
//!
//! - [`mechanism`](mod@mechanism) runs the trainer on synthetic data and tests what the accountant assumes: noise,
//!   draws, divisor, clip, counts, ledger.
//! - [`neighbours`] replays the steps of a run with the same randomness on neighbouring data sets. It checks the
//!   properties that the accountant assumes. One example in exact arithmetic refutes a wrong mechanism.
//! - [`canary`](mod@canary) trains once with synthetic samples that Bernoulli trials insert into the data. It guesses
//!   the outcomes from what is released, and turns correct guesses into a lower bound on ε. Statistics refute a wrong
//!   claim, whatever the reason.
//!
//! None of them proves that a claim holds. All run the trainer's own step, workers and graphs. Their outputs are not
//! results. Mechanisms that are broken on purpose are in the tests only. The audit that can detect each of them does.

pub mod bound;
pub mod canary;
pub mod mechanism;
pub mod neighbours;
mod sum_probe;

#[cfg(test)]
mod controls;

use damper_accounting::{Accountant, Plan, Sampler};
use damper_data::Normalize;
use damper_onnx::SettingError;
use damper_train::{Run, TrainConfig, TrainError};
use serde::Serialize;

/// Version of the records that audits write.
pub const VERSION: u32 = 1;

/// File of the record of [`mechanism`](mod@mechanism), in a run's folder.
pub const MECHANISM: &str = "audit-mechanism.json";
/// File of the record of [`neighbours`].
pub const NEIGHBOURS: &str = "audit-neighbours.json";
/// File of the record of [`canary`](mod@canary).
pub const CANARY: &str = "audit-canary.json";

/// Claim of a run. It shows if an audit's record belongs to the same settings.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// ε of the whole run.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Smallest σ of a step over the sensitivity, with all its releases together.
    pub noise_multiplier: f64,
    /// Sampling rate.
    pub sampling_rate: f64,
    /// Number of steps.
    pub steps: u32,
    /// `pld` or `rdp`.
    pub accountant: Accountant,
    /// Name of the method: `dp-sgd`, `doppler`, …
    pub method: String,
    /// Number of trained parameters.
    pub parameters: usize,
    /// [`Run::path`].
    pub path: &'static str,
}

impl Claim {
    /// Returns the claim of `run`.
    #[must_use]
    pub fn new(run: &Run) -> Self {
        Self {
            epsilon: run.price.epsilon,
            delta: run.config.delta,
            noise_multiplier: run.price.plan.as_ref().map_or(0.0, Plan::smallest_multiplier),
            sampling_rate: run.price.terms.rate.as_f64(),
            steps: run.price.terms.steps,
            accountant: run.config.accountant,
            method: run.config.method.name.clone(),
            parameters: run.model.params.len(),
            path: run.path(),
        }
    }
}

/// Rejects a run without a privacy claim.
///
/// # Errors
///
/// The run is not private. The error names the setting.
pub fn check_claim(config: &TrainConfig) -> Result<(), TrainError> {
    if config.is_not_private() {
        let problem = "the run claims no privacy, so there is nothing to audit; leave it out";
        return Err(SettingError::new("not_private", "", problem).into());
    }
    Ok(())
}

/// Rejects a run whose frozen part has operators without a rule. Audits replay whole networks.
pub(crate) fn check_rules(run: &Run) -> Result<(), TrainError> {
    if run.has_opaque_part() {
        let problem = "the frozen part has operators without a rule, and audits replay whole networks; audit a network in which every operator \
                       has a rule, because the mechanism is the same";
        return Err(TrainError::Run(problem.into()));
    }
    Ok(())
}

/// Rejects a run that `neighbours` and `canary` cannot replay, and a run without a privacy claim.
///
/// They cannot replay draws that depend on the number of samples, or a release before the first step.
///
/// # Errors
///
/// The error names the setting. Samples are not drawn by independent trials at each step, or draws are truncated.
/// Features are normalised by a release, a count is released, or the frozen part is computed once. Or the run is not
/// private.
pub fn check_sampler(config: &TrainConfig) -> Result<(), TrainError> {
    check_claim(config)?;
    if let Some(bounds) = &config.normalize_private {
        let problem = "this audit is of steps alone, on rows that are normalised as they are; damper audit mechanism tests the release; leave \
                       it out, or give public constants (`normalize`)";
        let bounds = Normalize { means: bounds.lows.clone(), stds: bounds.highs.clone() };
        return Err(SettingError::new("normalize_private", bounds, problem).into());
    }
    if config.cache_frozen.is_some() {
        let problem = "this audit replays whole networks; leave it out";
        return Err(SettingError::new("cache_frozen", "", problem).into());
    }
    if config.release_non_finite.is_some() {
        let problem = "this audit is of steps alone; damper audit mechanism tests the release; leave it out";
        return Err(SettingError::new("release_non_finite", "", problem).into());
    }
    let (setting, value) = match (config.sampler, config.truncate) {
        (Sampler::Poisson, None) => return Ok(()),
        (Sampler::Poisson, Some(_)) => ("truncate", ""),
        (sampler, _) => ("sampler", sampler.name()),
    };
    let problem = "this audit replays whole Poisson draws, and with one sample more or less these are others; use damper audit mechanism, or \
                   leave it out";
    Err(SettingError::new(setting, value, problem).into())
}

/// Returns the user's seed, or a number from the operating system.
fn seed_or_drawn(seed: Option<u64>) -> Result<u64, TrainError> {
    match seed {
        Some(seed) => Ok(seed),
        None => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(TrainError::Key)?;
            Ok(u64::from_le_bytes(bytes))
        }
    }
}
