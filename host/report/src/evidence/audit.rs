//! Results of the run's audits, if any ran, as `damper audit` recorded them.
//!
//! # Privacy
//!
//! An audit's record names samples, draws and a seed of its own course. A report shows only counts and verdicts.

use super::difference::{Difference, near};
use damper_accounting::{Recorded, upward};
use damper_audit::{CANARY, MECHANISM, NEIGHBOURS};
use serde::{Deserialize, Serialize};

/// Claim that an audit tested.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct Claim {
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    sampling_rate: f64,
    steps: u64,
}

/// `audit-canary.json`: the fields that are shown or checked.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct Canary {
    refuted: bool,
    epsilon_lower: f64,
    confidence: f64,
    claim: Claim,
    canaries: String,
    count: u64,
    guesses: u64,
    correct: u64,
    adversary: String,
    bound: String,
}

/// `audit-neighbours.json`: the fields that are shown or checked.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct Neighbours {
    holds: bool,
    claim: Claim,
    steps: u64,
    other_samples: String,
    cases: Vec<Case>,
}

/// `audit-mechanism.json`: the fields that are shown or checked.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct Mechanism {
    holds: bool,
    claim: Claim,
    error_rate: f64,
    tests: u64,
    precision: f64,
    findings: Vec<Found>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Found {
    what: String,
    holds: bool,
    detail: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Case {
    case: String,
    violation: Option<Violation>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Violation {
    step: u64,
    what: String,
}

/// Outcome of an audit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Audit {
    /// File of the outcome.
    pub file: &'static str,
    /// True if the claim passed.
    pub passed: bool,
    /// Result in a sentence.
    pub verdict: String,
    /// Figures of the audit.
    pub figures: Vec<Figure>,
}

/// A figure of an audit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub of: &'static str,
    /// Value as the page shows it.
    pub value: String,
}

fn figure(of: &'static str, value: impl ToString) -> Figure {
    Figure { of, value: value.to_string() }
}

impl Claim {
    /// Returns the difference between the audited claim and the run's.
    fn difference(&self, file: &'static str, recorded: &Recorded, epsilon: f64) -> Option<Difference> {
        let same = near(self.epsilon, epsilon)
            && near(self.delta, recorded.delta)
            && near(self.noise_multiplier, recorded.smallest_multiplier())
            && near(self.sampling_rate, recorded.largest_rate().as_f64())
            && self.steps == recorded.steps();
        let words =
            |epsilon: f64, delta: f64, steps: u64| format!("epsilon {epsilon} at delta {delta:e} of {steps} steps");
        (!same).then(|| Difference {
            file,
            of: "to be of a run with",
            claimed: words(self.epsilon, self.delta, self.steps),
            found: words(epsilon, recorded.delta, recorded.steps()),
        })
    }
}

impl Canary {
    /// Compares the outcome with the ε of the run's events. Also returns the difference if the audit tested another
    /// claim.
    pub(crate) fn judge(&self, recorded: &Recorded, epsilon: f64) -> (Audit, Option<Difference>) {
        let passed = !self.refuted && self.epsilon_lower <= epsilon;
        let verdict = format!(
            "ε is at least {:.4} with {} % confidence, claimed at most {} at δ = {:e}: {}",
            self.epsilon_lower,
            (1e7 * self.confidence).round() / 1e5,
            upward(epsilon),
            recorded.delta,
            if passed { "the claim is not refuted" } else { "the claim is refuted" }
        );
        let figures = vec![
            figure("canaries", format!("{}, {}", self.count, self.canaries)),
            figure("guesses", format!("{} right of {}", self.correct, self.guesses)),
            figure("the adversary", &self.adversary),
            figure("the bound", &self.bound),
        ];
        (Audit { file: CANARY, passed, verdict, figures }, self.claim.difference(CANARY, recorded, epsilon))
    }
}

impl Mechanism {
    /// As [`Canary::judge`].
    pub(crate) fn judge(&self, recorded: &Recorded, epsilon: f64) -> (Audit, Option<Difference>) {
        let broken = self.findings.iter().find(|found| !found.holds);
        let passed = self.holds && broken.is_none() && !self.findings.is_empty();
        let verdict = match broken {
            Some(Found { what, detail, .. }) => {
                format!(
                    "the mechanism is not the one that is priced: {what}: {}",
                    detail.as_deref().unwrap_or("does not hold")
                )
            }
            None if passed => format!(
                "on made data the noise, the draws, the divisor, the clip, the counts and the ledger were as the price assumes, in {} properties",
                self.findings.len()
            ),
            None => "the record names no property that is broken, nor that all of them hold".into(),
        };
        let figures = vec![
            figure(
                "tests",
                format!(
                    "{}, which refute a right mechanism with a probability of at most {:e}",
                    self.tests, self.error_rate
                ),
            ),
            figure("deviation of the noise that is found", format!("{} %", (1e4 * self.precision).round() / 1e2)),
        ];
        (Audit { file: MECHANISM, passed, verdict, figures }, self.claim.difference(MECHANISM, recorded, epsilon))
    }
}

impl Neighbours {
    /// As [`Canary::judge`].
    pub(crate) fn judge(&self, recorded: &Recorded, epsilon: f64) -> (Audit, Option<Difference>) {
        let broken = self.cases.iter().find_map(|case| Some((case, case.violation.as_ref()?)));
        let passed = self.holds && broken.is_none() && !self.cases.is_empty();
        let verdict = match broken {
            Some((Case { case, .. }, Violation { step, what })) => {
                format!("a law is broken: {case}, step {step}: {what}")
            }
            None if passed => format!(
                "on {} neighbouring data sets the steps, prices and draws were the same, and the clipped sum moved by at most its bound",
                self.cases.len()
            ),
            None => "the record names no law that was broken, nor that all of them hold".into(),
        };
        let figures =
            vec![figure("steps replayed", self.steps), figure("gradients of the other samples", &self.other_samples)];
        (Audit { file: NEIGHBOURS, passed, verdict, figures }, self.claim.difference(NEIGHBOURS, recorded, epsilon))
    }
}
