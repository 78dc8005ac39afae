//! Statement of a run: recomputed from its records, and compared with its claim.
//!
//! # Privacy
//!
//! A statement reads only released files and adds no information. So ε covers it as it covers them.

mod curves;
mod guideline;
mod not_private;
mod unfinished;

pub use curves::{AtDelta, AtSteps, Curves};
pub use guideline::Item;
pub(crate) use guideline::SECTIONS;
pub use not_private::{NotPrivateStatement, is_not_private};
pub use unfinished::{Unfinished, is_finished, paid, planned};

use crate::evidence::{Audit, Difference, Evidence, ReleasedFile, last_difference, near};
use crate::record::{REFUTED, TrainReport};
use crate::text::capital;
use damper_accounting::pld::Neighbours;
use damper_accounting::{Accountant, AccountingError, DeltaVerdict, Recorded, Sampler, judge_delta, upward};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_train::files;
use serde::Serialize;
use std::num::NonZeroU32;

/// Statement on a run. The fixed keys come first, all of them from `events.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statement {
    /// ε of the recorded events, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Smallest σ of an event over the clip, with all releases together.
    pub noise_multiplier: f64,
    /// Largest sampling rate of an event.
    pub sampling_rate: f64,
    /// Description of an event of the run, which the accountant composes.
    pub event: &'static str,
    /// Number of steps with a release.
    pub steps: u64,
    /// The accountant.
    pub accountant: Accountant,
    /// The guarantee in a sentence, or the reason that there is none.
    pub guarantee: String,
    /// True if `guarantee` states a guarantee.
    pub guaranteed: bool,
    /// The assumptions of the guarantee.
    pub assumptions: Vec<String>,
    /// The meaning of one sample.
    pub sample: String,
    /// True if the run's claim agrees with its events.
    pub agrees: bool,
    /// Differences between the files.
    pub differences: Vec<Difference>,
    /// True if `model.onnx` is marked as a model that is not a result, because an audit trained it.
    pub marked: bool,
    /// ε for neighbours with one replaced sample. `None` if no finite ε holds.
    pub epsilon_of_replaced: Option<f64>,
    /// ε, at the same δ, of several samples of one person that are all present or all absent.
    pub groups: Vec<OfGroup>,
    /// Largest true positive rate of a guess on one sample, at a false positive rate of 1 %.
    pub max_true_positive_rate: f64,
    /// ε over steps, and over δ.
    pub curves: Curves,
    /// Audits that ran.
    pub audits: Vec<Audit>,
    /// Items that a claim of differential privacy must state, with their places in this report.
    pub guideline: Vec<Item>,
    /// The released files.
    pub files: Vec<ReleasedFile>,
    /// Version of damper that computed this.
    pub damper: &'static str,
    /// Report of the run.
    pub record: TrainReport,
}

/// Meaning of one sample, if the record does not state the kind of data.
const SAMPLE: &str = "one row of the training data: an image, a table's row or a text, with its label";
const SEVERAL: &str =
    "A person with several of them is several samples, and a document cut into pieces is several samples";
/// Group sizes of a statement. `damper epsilon DIR --group K` computes others.
const GROUPS: [u32; 2] = [2, 5];

/// ε of a group of samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OfGroup {
    /// Number of samples in the group.
    pub samples: u32,
    /// ε at the statement's δ, rounded up. `None` without a useful bound.
    pub epsilon: Option<f64>,
}

impl OfGroup {
    fn new(recorded: &Recorded, samples: u32) -> Self {
        let size = NonZeroU32::new(samples).unwrap_or(NonZeroU32::MIN);
        let found = recorded.epsilon_of_group(size, Neighbours::AddOrRemove, recorded.delta);
        Self { samples, epsilon: found.ok().map(|found| found.epsilon) }
    }

    fn text(self) -> String {
        let bound = self
            .epsilon
            .map_or_else(|| "has no useful bound".into(), |epsilon| format!("is at most {}", upward(epsilon)));
        format!("of {} of them it {bound}", self.samples)
    }
}

/// Returns the guarantee for several samples together, in a sentence.
fn several(groups: &[OfGroup]) -> String {
    let all: Vec<String> = groups.iter().map(|group| group.text()).collect();
    format!("{SEVERAL}. For them ε at the same δ, by privacy loss distributions, is: {}", all.join(", "))
}

/// Warning about a model that an audit trained.
const NO_RESULT: &str =
    "There is no guarantee, and no result: the model was trained with made-up samples, to audit its training.";

impl Statement {
    /// Recomputes everything.
    ///
    /// # Errors
    ///
    /// The accountant cannot compose the recorded events.
    pub fn new(evidence: Evidence) -> Result<Self, AccountingError> {
        let Evidence {
            record,
            recorded,
            canary,
            mechanism,
            neighbours,
            marked,
            params_digest,
            best_params_digest,
            evaluations,
            files,
        } = evidence;
        let price = recorded.epsilon(recorded.accountant, recorded.delta)?;
        let epsilon = price.epsilon;
        let mut differences = differences(&record, &recorded, epsilon);
        let best = record.early_stop.as_ref().and_then(|early| early.best_params_digest.as_ref());
        for (claimed, found, of) in [
            (Some(&record.execution.params_digest), params_digest, "the parameters in model.onnx to have the digest"),
            (best, best_params_digest, "the parameters in model-best.onnx to have the digest"),
        ] {
            if let (Some(claimed), Some(found)) = (claimed, found)
                && *claimed != found
            {
                let claimed = claimed.chars().take(80).collect();
                differences.push(Difference { file: "report.json", of, claimed, found });
            }
        }
        if let Some((of, claimed, found)) = last_difference(&evaluations, &record.test) {
            differences.push(Difference { file: "metrics.csv", of, claimed, found });
        }
        let groups: Vec<OfGroup> = GROUPS.iter().map(|samples| OfGroup::new(&recorded, *samples)).collect();
        let canary = canary.map(|audit| audit.judge(&recorded, epsilon));
        let mechanism = mechanism.map(|audit| audit.judge(&recorded, epsilon));
        let neighbours = neighbours.map(|audit| audit.judge(&recorded, epsilon));
        let mut audits = Vec::new();
        for (audit, difference) in canary.into_iter().chain(mechanism).chain(neighbours) {
            audits.push(audit);
            differences.extend(difference);
        }
        let refuted = audits.iter().any(|audit| !audit.passed);
        let none = match (differences.is_empty(), refuted, marked) {
            (false, ..) => Some("There is no guarantee: the files of this run do not agree with each other."),
            (_, true, _) => Some("There is no guarantee: an audit of this run failed."),
            (.., true) => Some(NO_RESULT),
            _ => None,
        };
        let (guaranteed, guarantee) = match none {
            Some(none) => (false, none.to_owned()),
            None => guarantee(&record, &recorded, epsilon),
        };
        Ok(Self {
            epsilon,
            delta: recorded.delta,
            noise_multiplier: recorded.smallest_multiplier(),
            sampling_rate: recorded.largest_rate().as_f64(),
            event: recorded.event_name(),
            steps: recorded.steps(),
            accountant: recorded.accountant,
            guarantee,
            guaranteed,
            assumptions: assumptions(&record, &recorded),
            sample: format!("{}. {}", record.privacy.sample.as_deref().unwrap_or(SAMPLE), several(&groups)),
            agrees: differences.is_empty(),
            differences,
            marked,
            epsilon_of_replaced: recorded.epsilon_of_replaced(recorded.delta).ok().map(|priced| priced.epsilon),
            groups,
            max_true_positive_rate: true_alarms(epsilon, recorded.delta),
            curves: Curves::new(&recorded, evaluations),
            guideline: guideline::items(&record, &recorded, &audits),
            audits,
            files,
            damper: env!("CARGO_PKG_VERSION"),
            record,
        })
    }

    /// Returns the fault, if there is one: files that disagree, or an audit that failed.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if let Some(Difference { file, of, claimed, found }) = self.differences.first() {
            return Some(format!(
                "{file} claims {of} {claimed}, but it is {found}: a file was changed, or they are of two runs; do not rely on the claim ({} in all, see the report)",
                match self.differences.len() {
                    1 => "one difference".into(),
                    many => format!("{many} differences"),
                }
            ));
        }
        if let Some(failed) = self.audits.iter().find(|audit| !audit.passed) {
            return Some(format!("{}: the audit failed: {}; do not rely on the claim", failed.file, failed.verdict));
        }
        self.marked.then(|| format!("model.onnx: {NO_RESULT} Take the model that damper train wrote"))
    }

    /// Returns the content of `statement.json`, with a final newline.
    pub fn to_json(&self) -> String {
        files::json(self).expect("a statement has string keys and finite numbers")
    }
}

/// Returns the largest true positive rate at a false positive rate of 1 %, for any guess if one sample took part.
fn true_alarms(epsilon: f64, delta: f64) -> f64 {
    const FALSE: f64 = 0.01;
    let most = (epsilon.exp() * FALSE + delta).min(1.0 - (-epsilon).exp() * (1.0 - delta - FALSE));
    most.clamp(0.0, 1.0)
}

/// Returns true and the guarantee in a sentence, or false and the reason that there is none.
fn guarantee(record: &TrainReport, recorded: &Recorded, epsilon: f64) -> (bool, String) {
    let figures = format!("ε = {} at δ = {:e}", upward(epsilon), recorded.delta);
    match &*record.run {
        "private" => {}
        "simulation" => {
            return (
                false,
                format!(
                    "There is no guarantee: the run is a simulation, whose seed is known, so its noise can be taken off again. A \
                     private run with the same settings would have {figures}."
                ),
            );
        }
        other => {
            return (
                false,
                format!(
                    "There is no guarantee, and no result: the run is marked `{}`.",
                    other.chars().take(40).collect::<String>()
                ),
            );
        }
    }
    if !record.privacy.is_exact() {
        let path = record.privacy.path.chars().take(40).collect::<String>();
        return (
            false,
            format!(
                "There is no guarantee: the run took the path `{path}`, whose sums and noise are floats. No proof covers their \
                 roundings. The ideal mechanism, in real numbers, would have {figures}."
            ),
        );
    }
    if record.versions.sample_independence == REFUTED {
        return (
            false,
            format!(
                "There is no guarantee: a sample's gradient depended on its row or on other samples in a test before the run, so the \
                 clip does not bound what one sample changes. If it did, the run would have {figures}."
            ),
        );
    }
    let samples = match record.privacy.declared_samples {
        None => format!("exactly {} samples", record.privacy.samples),
        Some(declared) => format!("one size, declared as {declared} samples,"),
    };
    let sets = if recorded.parts().held_out.is_empty() {
        format!("training sets of {samples} that differ in one sample")
    } else {
        format!("data sets with training sets of {samples} that differ in one sample, training or held-out")
    };
    (
        true,
        format!(
            "Whatever is computed from what epsilon covers is differentially private with {figures}: for any two {sets}, which one of them holds and the other holds nothing in its place, \
             every set of outcomes has a probability on the one of at most e^ε times that on the other, plus δ."
        ),
    )
}

fn assumptions(record: &TrainReport, recorded: &Recorded) -> Vec<String> {
    let mut all = vec![
        format!("Neighbours: {}.", record.privacy.neighbours),
        match recorded.sampler {
            Sampler::Poisson => "Each draw was an independent Poisson draw at exactly the recorded rate, and nobody outside saw which \
                                 samples it held."
                .into(),
            Sampler::CyclicPoisson => "Each sample was in a fixed group, and drawn by a Poisson coin of exactly the recorded rate at the steps of \
                                       its group alone; nobody outside saw which samples a draw held."
                .into(),
            Sampler::MinSeparation => "All epochs had one order of the samples, so that two steps of a sample were an epoch apart; nothing \
                                       is assumed of the order."
                .into(),
            Sampler::Shuffled => "Each sample was in one batch of an epoch at most; nothing is assumed of the order.".into(),
        },
        format!("How sums were bounded: {}.", record.privacy.path_note),
        format!("A sample's gradient depends on that sample and the parameters alone: {}.", record.versions.sample_independence),
        format!("Chosen without the data: {}.", record.privacy.fixed_beforehand),
        format!("Taken to be public: {}.", record.privacy.taken_as_public),
        match &record.held_out {
            Some(held_out) => format!("Held-out samples: {}.", held_out.public),
            None => "Held-out samples: none.".into(),
        },
        format!("Random words: {}; the key stays secret for ever.", record.mechanism.generator),
        "events.json lists everything that was released from the samples, as damper writes it. A changed file that is consistent in \
         itself is not noticed here: compare digests with those that the owner of the data published."
            .into(),
        format!("Counted: {}.", record.privacy.composition),
    ];
    let samples = record.privacy.public_samples();
    match judge_delta(recorded.delta, samples, true) {
        Ok(DeltaVerdict::Large { advised }) => all.push(format!(
            "delta is large: {:e} for {samples} samples, where {advised:.1e} is advised.",
            recorded.delta
        )),
        _ => all.push(format!("{}.", capital(&record.privacy.delta_note))),
    }
    all
}

/// Returns the differences between the run's claim and its recorded events.
fn differences(record: &TrainReport, recorded: &Recorded, epsilon: f64) -> Vec<Difference> {
    let number =
        |of: &'static str, claimed: f64, real: f64| (of, near(claimed, real), claimed.to_string(), real.to_string());
    let exact = |of: &'static str, claimed: String, real: String| (of, claimed == real, claimed, real);
    let (rate, parts) = (recorded.largest_rate(), recorded.parts());
    let mut all = vec![
        number("epsilon", record.epsilon, epsilon),
        number("delta", record.delta, recorded.delta),
        number("a noise multiplier of", record.noise_multiplier, recorded.smallest_multiplier()),
        number("a sampling rate of", record.sampling_rate, rate.as_f64()),
        exact(
            "a sampling rate of",
            record.privacy.sampling_rate_exact.clone(),
            format!("{}/{}", rate.numerator(), Rate::DENOMINATOR),
        ),
        exact("a number of steps of", record.steps.to_string(), recorded.steps().to_string()),
        exact("the accountant", record.accountant.to_string(), recorded.accountant.to_string()),
        exact("the sampler", record.privacy.sampler.name().into(), recorded.sampler.name().into()),
        exact(
            "draws cut at",
            cut(record.privacy.truncation.map(|cut| cut.most)),
            cut(parts.truncation.map(|cut| cut.most)),
        ),
        exact(
            "to be a",
            record.run.to_string(),
            match (&*record.run, record.mechanism.seed, recorded.run) {
                ("private", Some(_), _) => "simulation".into(),
                ("private" | "simulation", _, Some(run)) => run.to_string(),
                (run, ..) => run.to_owned(),
            },
        ),
    ];
    let mechanism = &record.mechanism;
    if let (Some(sigma), Some(bits)) = (mechanism.sigma_grid, mechanism.grid_bits) {
        let runs = f64::from(sigma) / 2f64.powi(bits.min(1000) as i32);
        all.push(number("noise on the gradient of", mechanism.gradient_multiplier, runs));
    }
    let correlation = |name: Option<String>| name.unwrap_or_else(|| "none".into());
    all.push(exact(
        "noise correlated by",
        correlation(mechanism.correlation.as_ref().map(|correlation| correlation.noise_correlation.clone())),
        correlation(parts.correlation.map(ToString::to_string)),
    ));
    if record.method.noise_schedule == "constant" && mechanism.correlation.is_none() {
        let gradient = SampledGaussian::new(Rate::ONE, mechanism.gradient_multiplier).ok();
        let joint = gradient.and_then(|event| match mechanism.count_noise_multiplier {
            None => Some(event.multiplier()),
            Some(counts) => event.and(counts).ok().map(|event| event.multiplier()),
        });
        let joint = joint.unwrap_or(0.0);
        all.push(number("all releases of a draw to have a multiplier of", record.noise_multiplier, joint));
    }
    let claimed = record.held_out.as_ref().and_then(|held_out| held_out.noise.as_ref());
    let released = recorded.of_held_out();
    all.push(exact(
        "releases from held-out samples:",
        claimed.map_or(0, |noise| u64::from(noise.evaluations)).to_string(),
        released.as_ref().map_or(0, Recorded::events).to_string(),
    ));
    if let (Some(claimed), Some(released)) = (claimed, &released) {
        let real = released.smallest_multiplier();
        all.push(number("held-out metrics with a multiplier of", claimed.joint_noise_multiplier, real));
    }
    let noise = |multiplier: Option<f64>| multiplier.map_or("none".into(), |multiplier| multiplier.to_string());
    all.push(exact(
        "a release of the features' means and deviations with a multiplier of",
        noise(record.normalize.as_ref().map(|normalize| normalize.noise_multiplier)),
        noise(parts.normalize),
    ));
    all.push(exact(
        "a release of the number of samples without a finite gradient with a multiplier of",
        noise(record.non_finite.as_ref().map(|count| count.noise_multiplier)),
        noise(parts.non_finite),
    ));
    let is_private = record.held_out.as_ref().is_some_and(|held_out| held_out.metrics == "private");
    all.push(exact("private held-out metrics:", is_private.to_string(), released.is_some().to_string()));
    let different = all.into_iter().filter(|(_, same, ..)| !same);
    different.map(|(of, _, claimed, found)| Difference { file: "report.json", of, claimed, found }).collect()
}

fn cut(most: Option<u64>) -> String {
    most.map_or("no size".into(), |most| format!("{most} samples"))
}
