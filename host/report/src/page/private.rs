//! `report.html`: one page for readers who must judge the claim.

use super::filters;
use super::plot::{Plot, Scale};
use super::render::rendered;
use super::rows::grouped;
use crate::record::TrainReport;
use crate::statement::Statement;
use askama::Template;
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

    fn parameters(&self) -> u64 {
        self.record.training.parameters as u64
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
                    title: "Epsilon of the first steps of the run, at the claimed delta",
                    across: "steps",
                    up: "ε, at most",
                    scale: Scale::Even,
                    mark: steps.last().copied(),
                    points: steps,
                },
                caption: format!("What was spent on a training sample as the run went on, at δ {delta:e}."),
                head: "steps",
                rows: over_steps.iter().map(|at| (grouped(at.steps), at.epsilon)).collect(),
            },
            Curve {
                plot: Plot {
                    id: "delta",
                    title: "Epsilon of the whole run at other values of delta",
                    across: "δ",
                    up: "ε, at most",
                    scale: Scale::Powers,
                    mark: Some((delta, epsilon)).filter(|_| deltas.iter().any(|at| at.0 == delta)),
                    points: deltas,
                },
                caption: "The same run, said with other values of δ; the mark is the claim.".into(),
                head: "δ",
                rows: over_delta.iter().map(|at| (format!("{:e}", at.delta), at.epsilon)).collect(),
            },
        ]
    }
}
