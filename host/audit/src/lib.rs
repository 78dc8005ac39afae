//! Audits: checks of a run's privacy by what it does, not by what it claims.
//!
//! - [`mechanism`](mod@mechanism) runs the trainer on made data and tests what the price assumes of it: noise, draws, divisor, clip, counts,
//!   ledger.
//! - [`neighbours`] replays the steps of a run with the same randomness on neighbouring data sets, and holds them to the laws that
//!   the accountant takes for granted. It refutes a wrong mechanism by one example, in exact arithmetic.
//! - [`canary`](mod@canary) trains once with made-up samples in the data by coin flips, guesses the coins from what is released, and
//!   turns right guesses into a lower bound on ε. It refutes a wrong claim by statistics, whatever the reason.
//!
//! None of them proves that a claim holds. All run the trainer's own step, workers and graphs; nothing that they make is offered as
//! a result. Mechanisms that are broken on purpose are in the tests alone, each caught by the audit that can see it.

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

/// The record of [`mechanism`](mod@mechanism), in a run's folder.
pub const MECHANISM: &str = "audit-mechanism.json";
/// File of the audit [`neighbours`].
pub const NEIGHBOURS: &str = "audit-neighbours.json";
/// File of the audit [`canary`](mod@canary).
pub const CANARY: &str = "audit-canary.json";

/// The claim that a run makes, by which an audit's record is known to be of the same settings.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// ε of the whole run.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The smallest σ of a draw over the sensitivity, all its releases together.
    pub noise_multiplier: f64,
    /// The rate.
    pub sampling_rate: f64,
    /// Draws.
    pub steps: u32,
    /// `pld` or `rdp`.
    pub accountant: Accountant,
    /// `dp-sgd`, `doppler`, …
    pub method: String,
    /// Number of trained parameters.
    pub parameters: usize,
    /// [`Run::path`].
    pub path: &'static str,
}

impl Claim {
    /// The claim of `run`.
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

/// Refuses a run that claims nothing.
///
/// # Errors
///
/// The run is not private: the error names the setting.
pub fn check_claim(config: &TrainConfig) -> Result<(), TrainError> {
    if config.is_not_private() {
        let problem = "the run claims no privacy, so there is nothing to audit; leave it out";
        return Err(SettingError::new("not_private", "", problem).into());
    }
    Ok(())
}

/// Refuses what neighbours and canaries cannot replay: draws that are others with one sample more or less, and a release before the first
/// step. Refuses a run that claims nothing.
///
/// # Errors
///
/// The error names the setting. Samples are not drawn by coins of their own at each step, or draws are cut. Features are normalised by a
/// release, a count is released, or the frozen part is computed once. Or the run is not private.
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

/// A number from the operating system, where the user gave none.
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
