//! `report.html`: one page for readers who must judge the claim.

use super::filters;
use super::headline::{self, Card};
use super::plot::{Plot, Scale};
use super::render::rendered;
use super::rows::{Rows, grouped};
use super::training;
use crate::record::TrainReport;
use crate::statement::{Item, Statement};
use askama::Template;
use damper_accounting::upward;
use damper_audit::CANARY;

#[derive(Template)]
#[template(path = "private.html")]
struct Page<'a> {
    statement: &'a Statement,
    record: &'a TrainReport,
}

/// Returns the page.
pub fn html(statement: &Statement) -> String {
    rendered(&Page { statement, record: &statement.record })
}

/// A sentence on the claim. The faults stand before it.
pub(super) enum Notice {
    /// The claim has faults.
    Failed,
    /// The claim follows from the events.
    Agrees,
    Warning(&'static str),
}

/// A curve with its table.
struct Curve {
    plot: Plot,
    caption: String,
    head: &'static str,
    rows: Vec<(String, f64)>,
}

impl Page<'_> {
    fn kind(&self) -> &'static str {
        match &*self.record.run {
            "private" => "Private",
            "simulation" => "Simulated",
            _ => "Marked",
        }
    }

    fn facts(&self) -> Rows {
        let record = self.record;
        let (kind, method, steps) = (self.kind(), &record.training.method, grouped(self.statement.steps));
        let training = format!("{kind} training by {method}, {steps} steps");
        let samples = record.privacy.public_samples();
        headline::facts(record.origin.as_ref(), record.training.parameters, samples, training)
    }

    fn accuracy(&self) -> Card {
        headline::accuracy(self.record.held_out.as_ref(), &self.record.test)
    }

    /// Returns the training curve, or ε over the steps if the run was evaluated less than twice.
    fn training(&self) -> Curve {
        match training::plot(&self.statement.curves) {
            Some(plot) => {
                let caption = "Held-out figures as the run went on. Above: ε so far, for a training sample.";
                Curve { plot, caption: caption.into(), head: "", rows: vec![] }
            }
            None => {
                let [steps, _] = self.curves();
                let why = if self.statement.curves.held_out.is_empty() {
                    ""
                } else {
                    " The run was evaluated at its end only. With evaluations during training, its accuracy is here."
                };
                let caption = format!("{}{why}", steps.caption);
                Curve { plot: Plot { id: "training", ..steps.plot }, caption, ..steps }
            }
        }
    }

    /// Returns the items of the guideline, a slice for each table.
    fn guideline(&self) -> Vec<&[Item]> {
        self.statement.guideline.chunk_by(|one, next| one.group == next.group).collect()
    }

    fn evaluations(&self) -> Vec<training::Row> {
        training::rows(&self.statement.curves)
    }

    fn notice(&self) -> Notice {
        let statement = self.statement;
        match &*self.record.run {
            _ if !statement.agrees || statement.audits.iter().any(|audit| !audit.passed) => Notice::Failed,
            _ if statement.marked => Notice::Warning(
                "No result: model.onnx was trained to audit its training, with made-up samples among the data.",
            ),
            "simulation" => Notice::Warning("A simulation: its seed is known, and nothing of it is private."),
            "private" if !self.record.privacy.is_exact() => {
                Notice::Warning("Not the exact path: sums and noise were floats. ε is that of the ideal mechanism.")
            }
            "private" => Notice::Agrees,
            _ => Notice::Warning("Marked: this folder is not offered as a result."),
        }
    }

    /// Returns the maximum true positive rate in percent, with one decimal, rounded up.
    fn true_alarms(&self) -> String {
        let share = 100.0 * self.statement.max_true_positive_rate;
        format!("{:.1}", (share * 10.0).ceil() / 10.0)
    }

    fn has_canaries(&self) -> bool {
        self.statement.audits.iter().any(|audit| audit.file == CANARY)
    }

    fn curves(&self) -> [Curve; 2] {
        let Statement { epsilon, delta, ref curves, .. } = *self.statement;
        let (over_steps, over_delta) = (&curves.over_steps, &curves.over_delta);
        let steps: Vec<_> = over_steps.iter().map(|at| (at.steps as f64, at.epsilon)).collect();
        let deltas: Vec<_> = over_delta.iter().map(|at| (at.delta, at.epsilon)).collect();
        [
            Curve {
                plot: Plot {
                    id: "steps",
                    title: "ε of the first steps of the run, at the claimed δ",
                    description: described(&steps, "steps"),
                    across: "steps",
                    up: "ε, at most",
                    scale: Scale::Even,
                    axis: Plot::axis_of(&steps),
                    mark: steps.last().copied(),
                    points: steps,
                    along: None,
                },
                caption: format!("ε of a training sample as the run went on, at δ = {delta:e}."),
                head: "steps",
                rows: over_steps.iter().map(|at| (grouped(at.steps), at.epsilon)).collect(),
            },
            Curve {
                plot: Plot {
                    id: "delta",
                    title: "ε of the whole run at other values of δ",
                    description: described(&deltas, "as δ"),
                    across: "δ",
                    up: "ε, at most",
                    scale: Scale::Powers,
                    mark: Some((delta, epsilon)).filter(|_| deltas.iter().any(|at| at.0 == delta)),
                    axis: Plot::axis_of(&deltas),
                    points: deltas,
                    along: None,
                },
                caption: "The same run at other values of δ. The dot is the claim.".into(),
                head: "δ",
                rows: over_delta.iter().map(|at| (format!("{:e}", at.delta), at.epsilon)).collect(),
            },
        ]
    }
}

/// Describes the ends of a curve of ε.
fn described(points: &[(f64, f64)], unit: &str) -> String {
    let end = |at: &(f64, f64)| format!("ε is at most {} at {} {unit}", upward(at.1), at.0);
    let ends: Vec<String> =
        points.first().into_iter().chain(points.last().filter(|_| points.len() > 1)).map(end).collect();
    ends.join(", and ")
}
