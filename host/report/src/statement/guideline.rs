//! Items that a claim of differential privacy must state, and their places in a report. After NIST SP 800-226
//! ("Guidelines for Evaluating Differential Privacy Guarantees", Near, Darais, Lefkovitz, Howarth, 2025).
//!
//! The wording and the order are damper's. The guideline's pyramid starts with the parameters and the unit of the
//! guarantee. It continues with algorithms, accuracy and correctness, and ends with trust, side channels and access to
//! the data.

use crate::evidence::Audit;
use crate::record::TrainReport;
use crate::text::capital;
use damper_accounting::{Recorded, Sampler, upward};
use serde::Serialize;

/// An item that must be stated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Item {
    /// Heading of its table on the page.
    #[serde(skip)]
    pub(crate) group: &'static str,
    /// The question.
    pub asked: &'static str,
    /// The answer of this run.
    pub answer: String,
    /// Part of the page with details. `None` if the report cannot contain the answer, and the publisher must state it.
    pub section: Option<&'static str>,
}

impl Item {
    /// Returns the anchor and the name of the part of the page with details.
    pub(crate) fn part(&self) -> Option<(&'static str, &'static str)> {
        let section = self.section?;
        SECTIONS.into_iter().find(|(anchor, _)| *anchor == section)
    }
}

/// Parts of a page, by their anchors.
pub(crate) const SECTIONS: [(&str, &str); 9] = [
    ("guarantee", "The guarantee"),
    ("curves", "Over steps and over δ"),
    ("mechanism", "Mechanism"),
    ("sampling", "Sampling and accounting"),
    ("ran", "What ran"),
    ("released", "What was released"),
    ("accuracy", "Accuracy"),
    ("audits", "Audits"),
    ("guideline", "What a claim must state"),
];

/// Describes the releases before the steps.
fn before(recorded: &Recorded) -> &'static str {
    let parts = recorded.parts();
    match (parts.normalize, parts.non_finite) {
        (None, None) => "",
        (Some(_), None) => "The features' means and deviations once, and ",
        (None, Some(_)) => "The number of samples without a finite gradient once, and ",
        (Some(_), Some(_)) => {
            "The features' means and deviations and the number of samples without a finite gradient once each, and "
        }
    }
}

/// Returns the items for a run.
pub(super) fn items(record: &TrainReport, recorded: &Recorded, audits: &[Audit]) -> Vec<Item> {
    let groups = [
        ("Parameters and mechanism", guarantee(record, recorded)),
        ("Scope and accuracy", scope(record)),
        ("Implementation", implementation(record, audits)),
        ("Trust", trust(record)),
    ];
    groups.into_iter().flat_map(|(group, items)| items.into_iter().map(move |item| Item { group, ..item })).collect()
}

fn item(asked: &'static str, section: &'static str, answer: String) -> Item {
    Item { group: "", asked, answer, section: Some(section) }
}

fn open(asked: &'static str, answer: &str) -> Item {
    Item { group: "", asked, answer: answer.to_owned(), section: None }
}

/// Returns the items on parameters, mechanism and composition.
fn guarantee(record: &TrainReport, recorded: &Recorded) -> Vec<Item> {
    let steps = recorded.steps();
    vec![
        item(
            "The privacy parameters, and the definition that they belong to",
            "guarantee",
            format!("Approximate differential privacy; δ = {:e}, ε computed for it and for others.", recorded.delta),
        ),
        item(
            "The neighbouring relation",
            "guarantee",
            format!("{}; beside it the figure for a replaced sample.", record.privacy.neighbours),
        ),
        item(
            "The unit of privacy",
            "guarantee",
            "One sample, not one person; ε of several samples together is beside it.".into(),
        ),
        item("The bound on what one unit contributes", "mechanism", format!("{}.", record.method.sensitivity)),
        item(
            "The mechanism and its parameters",
            "mechanism",
            format!("{}, all parameters are listed.", record.mechanism.name),
        ),
        item(
            "Composition: what was released how often, and how it adds up",
            "sampling",
            format!("{}{steps} steps, priced together by the accountant {}.", before(recorded), recorded.accountant),
        ),
        item(
            "Amplification by sampling, and whether the sampler that ran is the one that was priced",
            "sampling",
            match recorded.sampler {
                Sampler::Poisson => "Poisson sampling; rate and coins are the same exact fraction.".into(),
                Sampler::CyclicPoisson => {
                    "Poisson sampling within groups; rate and coins are the same exact fraction.".into()
                }
                Sampler::MinSeparation => "None is claimed: batches came in one order.".into(),
                Sampler::Shuffled => "None is claimed: batches were shuffled.".into(),
            },
        ),
    ]
}

/// Returns the items on the scope of the guarantee, and its cost in accuracy.
fn scope(record: &TrainReport) -> Vec<Item> {
    vec![
        item("The whole privacy budget of the data", "guarantee", format!("{}.", capital(&record.privacy.composition))),
        item(
            "What is covered by the guarantee, and what is not",
            "released",
            format!("Covered: {}. Not: {}.", record.privacy.covered, record.privacy.not_covered),
        ),
        item(
            "Preprocessing and choices made on the data",
            "guarantee",
            format!("Taken to be public, and not covered if they were not: {}.", record.privacy.taken_as_public),
        ),
        item(
            "Accuracy, and how it was measured",
            "accuracy",
            match (&record.held_out, record.test.accuracy, record.test.loss) {
                (Some(held_out), Some(accuracy), _) => {
                    let (share, samples, public) = (100.0 * accuracy, held_out.samples, &held_out.public);
                    format!("{share:.2} % of {samples} held-out samples, {public}.")
                }
                (Some(held_out), None, Some(loss)) => {
                    format!("Loss {loss:.4} on {} held-out samples, {}.", held_out.samples, held_out.public)
                }
                _ => "Not measured.".into(),
            },
        ),
        open(
            "Bias: who is served worse",
            "Not measured. Clipping and noise cost rare groups more than common ones: measure accuracy by group before use.",
        ),
    ]
}

/// Returns the items on the implementation and its audits.
fn implementation(record: &TrainReport, audits: &[Audit]) -> Vec<Item> {
    vec![
        item(
            "Correctness of the implementation, floating point included",
            "ran",
            if record.privacy.is_exact() {
                "Sums, bounds and noise are integers; every rounding of ε is upward; a recorded run can be replayed."
                    .into()
            } else {
                format!("{}.", capital(&record.privacy.path_note))
            },
        ),
        item("The source of randomness", "ran", format!("{}.", record.mechanism.generator)),
        item(
            "Evidence beside the proof",
            "audits",
            match audits {
                [] => "No audit's result lies in this folder; ε was computed again from the recorded events.".into(),
                audits => format!(
                    "{} of {} audits passed; ε was computed again from the recorded events.",
                    audits.iter().filter(|audit| audit.passed).count(),
                    audits.len()
                ),
            },
        ),
    ]
}

/// Returns the items on trust and side channels, which the proof does not cover.
fn trust(record: &TrainReport) -> Vec<Item> {
    vec![
        open(
            "The trust model",
            "Central: who trains sees data, gradients and key, and is trusted with them. Whoever publishes this names them.",
        ),
        open(
            "Side channels",
            "Not covered by ε: the time a step takes, memory and power depend on how many samples it drew. Keep them from \
             whoever may not see the data.",
        ),
        open(
            "Security of the data and access to it",
            "The private folder checkpoint/ is readable by its owner alone; more must come from whoever keeps the data.",
        ),
        open(
            "How the data were collected",
            "Outside of what software can say: what a person gave to be collected is exposed to whoever collected it.",
        ),
        item(
            "How strong the guarantee is, in words",
            "guarantee",
            format!(
                "The run claims ε = {}; the page gives what a guess at one sample can reach.",
                upward(record.epsilon)
            ),
        ),
    ]
}
