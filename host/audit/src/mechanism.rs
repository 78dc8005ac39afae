//! Tests of the built mechanism against the assumptions of the accountant.
//!
//! The trainer itself runs, on synthetic data and with its own keys. An observer sees each step before its release, and
//! each release. The configuration is the user's: method, noise, grid, clip, sampling rate, optimizer, ledger, workers.
//! The noise is the release minus the sum before it.
//!
//! | course | network | what it tests |
//! | --- | --- | --- |
//! | `own` | the user's, on synthetic samples of its shapes | each tensor of the network, the ledger file |
//! | `wide` | synthetic, as many parameters as one step needs | each step |
//! | `narrow` | synthetic, 18 parameters, steps as a coordinate needs | each coordinate, count and step, a few trials |
//! | `draws` | synthetic, 18 parameters, the run's number of samples | rates, sums and counts against known gradients |
//! | `samples` | none: the sampler alone, over the run's samples | rates, sizes, pairs, shared trials |
//! | `tails` | synthetic, steps without a sample | noise far out, clamped noise |
//! | `normalize` | synthetic, one release of means and deviations | noise, sums, charge, sensitivity to a row |
//! | `non-finite` | synthetic, one release of a count in a run | noise, charge, sensitivity to a row |
//! | `held-out` | synthetic, noisy figures of held-out rows | noise, sums, charges, sensitivity to a row |
//! | `restarts` | synthetic, steps of one run over four lives | numbers and noise after a crash |
//!
//! All tests together refute a correct mechanism with a probability of at most [`ERROR_RATE`]. The p-values are upper
//! bounds, and each test has an equal share. Exact checks, such as the order of charges, need no share.

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

use super::{Claim, VERSION, check_claim, check_rules};
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
    /// Smallest relative deviation of the noise that the audit detects at each step and coordinate: 0.001 to 0.5.
    pub precision: f64,
    /// Seed of all randomness. If absent, keys come from the operating system.
    pub seed: Option<u64>,
}

/// Record of the audit: `audit-mechanism.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct MechanismAudit {
    /// Version of this format.
    pub version: u32,
    /// Always `mechanism`.
    pub audit: &'static str,
    /// True if every test and check passes.
    pub holds: bool,
    /// Claim of the audited run.
    pub claim: Claim,
    /// Upper bound on the probability that a correct mechanism is refuted.
    pub error_rate: f64,
    /// Number of tests that share it.
    pub tests: u64,
    /// See [`MechanismOptions::precision`].
    pub precision: f64,
    /// Seed of all randomness, if given.
    pub seed: Option<u64>,
    /// Name and version of the backend.
    pub backend: String,
    /// The courses that ran.
    pub courses: Vec<CourseRecord>,
    /// The tests.
    pub findings: Vec<Finding>,
}

/// Audits the mechanism of `run`. `told` is the progress callback.
///
/// # Errors
///
/// The precision is out of its range, the backend is absent or fails, or a temporary folder cannot be made or written.
pub fn mechanism(
    run: &Run,
    options: MechanismOptions,
    told: &mut dyn FnMut(&str),
) -> Result<MechanismAudit, TrainError> {
    check_rules(run)?;
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
