//! The mechanism as it is built, held against what the price assumes of it.
//!
//! The trainer itself runs, on made data and with keys of its own, while an observer sees each step before its release and each
//! release. The configuration is the user's: method, noise, grid, clip, rate, optimizer, ledger, workers. Noise is what was released
//! less the sum before it.
//!
//! | course | network | what it shows |
//! | --- | --- | --- |
//! | `own` | the user's, on made samples of its shapes | each tensor of the real network, the ledger's file at each step |
//! | `wide` | made, as many parameters as one step needs | each step |
//! | `narrow` | made, 18 parameters, as many steps as a coordinate needs | each coordinate, each count, each window of steps, coins of few samples |
//! | `draws` | made, 18 parameters, the run's own number of samples | each sample's rate, sums and counts against known gradients |
//! | `samples` | none: the trainer's sampler alone, over the run's own number of samples | rates, sizes, pairs, shared coins |
//! | `tails` | made, steps without a sample | noise far out, clamped noise |
//! | `normalize` | made, one release of means and deviations | its noise, sums, charge, and how far a row moves it |
//! | `non-finite` | made, one release of a count a run | its noise, charge, and how far a row moves it |
//! | `held-out` | made, noisy figures of held-out rows | the same of them |
//! | `restarts` | made, steps of one run over four lives | numbers and noise after a crash |
//!
//! All tests together refute a right mechanism with a probability of at most [`ERROR_RATE`]: the p-values are upper bounds, and each
//! test has an equal share. Laws, such as the order of charges, need no chance.

mod across;
mod auditor;
mod chance;
mod courses;
mod far_out;
mod first_step;
mod held_out;
mod made;
mod non_finite;
mod normalize;
mod power;
mod rates;
mod released;
mod releases;
mod restart;
mod samples;
mod seen;
mod tests_of;

pub use auditor::{CourseRecord, PRECISION};
pub use tests_of::{ERROR_RATE, Finding};

use super::{Claim, VERSION, check_claim};
use across::Across;
use auditor::Auditor;
use damper_onnx::SettingError;
use damper_runtime::open;
use damper_train::{Run, TrainError};
use serde::Serialize;
use std::time::Instant;
use tests_of::Tests;

/// Options of the audit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MechanismOptions {
    /// The smallest deviation of the noise that is found at each step and coordinate, as a share: from 0.001 to 0.5.
    pub precision: f64,
    /// Seed of all randomness; keys from the operating system if not given.
    pub seed: Option<u64>,
}

/// The result: `audit-mechanism.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MechanismAudit {
    /// Of this format.
    pub version: u32,
    /// `mechanism`.
    pub audit: &'static str,
    /// True if everything holds.
    pub holds: bool,
    /// Of the run that was audited.
    pub claim: Claim,
    /// The probability that a right mechanism is refuted, at most.
    pub error_rate: f64,
    /// Tests that share it.
    pub tests: u64,
    /// See [`MechanismOptions::precision`].
    pub precision: f64,
    /// Seed of all randomness, where it was given.
    pub seed: Option<u64>,
    /// The backend.
    pub backend: String,
    /// The courses that ran.
    pub courses: Vec<CourseRecord>,
    /// The tests.
    pub findings: Vec<Finding>,
}

/// Audits the mechanism of `run`; `told` hears of progress.
///
/// # Errors
///
/// The precision is out of its range, the backend is absent or fails, or a temporary folder cannot be made or written.
pub fn mechanism(
    run: &Run,
    options: MechanismOptions,
    told: &mut dyn FnMut(&str),
) -> Result<MechanismAudit, TrainError> {
    check_claim(&run.config)?;
    let MechanismOptions { precision, seed } = options;
    if !(0.001..=0.5).contains(&precision) {
        let problem = "must be from 0.001 to 0.5; 0.01 is usual";
        return Err(SettingError::new("precision", precision, problem).into());
    }
    let backend = open(run.config.backend)?;
    told(&format!("backend: {}", backend.note()));
    let mut auditor = Auditor {
        precision,
        seed,
        tests: Tests::default(),
        across: Across::default(),
        courses: vec![],
        told,
        started: Instant::now(),
    };
    auditor.own(run)?;
    auditor.wide(run)?;
    auditor.draws(run)?;
    auditor.samples(run)?;
    auditor.tails(run)?;
    auditor.normalize(run)?;
    auditor.non_finite(run)?;
    auditor.held_out(run)?;
    auditor.restarts(run)?;
    auditor.narrow(run)?;
    let Auditor { mut tests, across, courses, .. } = auditor;
    across.conclude(&mut tests);
    let (total, findings) = tests.judged();
    Ok(MechanismAudit {
        version: VERSION,
        audit: "mechanism",
        holds: findings.iter().all(|finding| finding.holds),
        claim: Claim::new(run),
        error_rate: ERROR_RATE,
        tests: total,
        precision,
        seed,
        backend: format!("{} {}", backend.name(), backend.version()),
        courses,
        findings,
    })
}
