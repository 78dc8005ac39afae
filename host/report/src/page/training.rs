//! The training curve: held-out figures over the steps, and ε along them.

use super::frame::PlotAxis;
use super::plot::{Plot, Scale};
use super::rows::grouped;
use crate::statement::{AtSteps, Curves};

/// Number of labels of the axis of ε, and maximum number of rows of the table.
const LABELS: usize = 5;
const ROWS: usize = 24;

/// A row of the table: steps, accuracy, loss.
pub(super) type Row = [String; 3];

/// Returns the curve of accuracy, or of loss without accuracy. `None` for fewer than two evaluations.
pub(super) fn plot(curves: &Curves) -> Option<Plot> {
    let has_accuracy = curves.held_out.iter().any(|at| at.accuracy.is_some());
    let of = |value: f64| if has_accuracy { 100.0 * value } else { value };
    let points: Vec<(f64, f64)> = curves
        .held_out
        .iter()
        .filter_map(|at| Some((at.steps as f64, of(if has_accuracy { at.accuracy } else { at.loss }?))))
        .collect();
    let (first, last) = (points.first()?, points.last()?);
    if first.0 == last.0 {
        return None;
    }
    let axis = if has_accuracy {
        // An axis of percents ends at 100.
        PlotAxis::from_zero(points.iter().map(|(_, y)| *y).fold(1.0, f64::max).min(96.0))
    } else {
        Plot::axis_of(&points)
    };
    let (what, up) = if has_accuracy { ("Accuracy", "accuracy, %") } else { ("Loss", "loss") };
    let places = if has_accuracy { 2 } else { 4 };
    Some(Plot {
        id: "training",
        title: if has_accuracy { "Training curve: accuracy" } else { "Training curve: loss" },
        description: format!(
            "{what} on the held-out samples: {:.places$} after {} steps, {:.places$} after {} steps. The axis above it has ε so far.",
            first.1, first.0, last.1, last.0
        ),
        across: "steps",
        up,
        scale: Scale::Even,
        axis,
        mark: Some(*last),
        along: Some(("ε so far, at most", labels(&curves.over_steps, first.0, last.0))),
        points,
    })
}

/// Returns labels of ε at about equal distances, with at most two decimals, rounded up.
fn labels(over_steps: &[AtSteps], from: f64, to: f64) -> Vec<(f64, String)> {
    let inside: Vec<&AtSteps> =
        over_steps.iter().filter(|at| at.steps as f64 >= from && at.steps as f64 <= to).collect();
    let Some(last) = inside.len().checked_sub(1) else { return vec![] };
    let mut at: Vec<usize> = (0..LABELS).map(|label| last * label / (LABELS - 1)).collect();
    at.dedup();
    at.into_iter().map(|at| (inside[at].steps as f64, short(inside[at].epsilon))).collect()
}

fn short(epsilon: f64) -> String {
    if epsilon < 100.0 { format!("{:.2}", (100.0 * epsilon).ceil() / 100.0) } else { format!("{:.0}", epsilon.ceil()) }
}

/// Returns the evaluations as rows. If there are many, every n-th and the last.
pub(super) fn rows(curves: &Curves) -> Vec<Row> {
    let all = &curves.held_out;
    let every = all.len().div_ceil(ROWS).max(1);
    let text = |figure: Option<f64>, of: &dyn Fn(f64) -> String| figure.map_or("–".into(), of);
    let shown = all.iter().enumerate().filter(|(at, _)| (all.len() - 1 - at).is_multiple_of(every));
    shown
        .map(|(_, at)| {
            [
                grouped(at.steps),
                text(at.accuracy, &|value| format!("{:.2} %", 100.0 * value)),
                text(at.loss, &|value| format!("{value:.4}")),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::AtEvaluation;

    fn curves(evaluations: &[(u64, Option<f64>)], epsilons: &[(u64, f64)]) -> Curves {
        Curves {
            over_steps: epsilons.iter().map(|(steps, epsilon)| AtSteps { steps: *steps, epsilon: *epsilon }).collect(),
            over_delta: vec![],
            held_out: evaluations
                .iter()
                .map(|(steps, accuracy)| AtEvaluation { steps: *steps, accuracy: *accuracy, loss: Some(0.5) })
                .collect(),
        }
    }

    #[test]
    fn curve_needs_two_evaluations() {
        let one = [(9, Some(0.5))];
        assert!(plot(&curves(&[], &[])).is_none());
        assert!(plot(&curves(&one, &[(9, 1.0)])).is_none());
        assert!(plot(&curves(&[one[0], one[0]], &[])).is_none());
        let two = plot(&curves(&[(1, Some(0.25)), one[0]], &[(1, 0.5), (9, 1.0)])).unwrap();
        assert_eq!(two.points, [(1.0, 25.0), (9.0, 50.0)]);
        assert!(two.description.contains("25.00 after 1 steps, 50.00 after 9 steps"), "{}", two.description);
    }

    #[test]
    fn curve_without_accuracy_is_of_loss() {
        let found = plot(&curves(&[(1, None), (2, None)], &[])).unwrap();
        assert_eq!((found.up, found.points), ("loss", vec![(1.0, 0.5), (2.0, 0.5)]));
    }

    // A rounded label is never below ε, and lies at the step of its ε.
    #[test]
    fn labels_round_epsilon_up() {
        let epsilons: Vec<(u64, f64)> = (0..25).map(|at| (4 * at, 0.125 * at as f64)).collect();
        let found = plot(&curves(&[(4, Some(0.1)), (80, Some(0.9))], &epsilons)).unwrap();
        let labels = found.along.unwrap().1;
        assert_eq!(labels.first(), Some(&(4.0, "0.13".into())));
        assert_eq!(labels.last(), Some(&(80.0, "2.50".into())));
        assert_eq!(labels.len(), 5);
        assert_eq!([short(99.991), short(123.4)], ["100.00", "124"]);
    }

    #[test]
    fn table_has_the_last_evaluation() {
        for count in [1, 24, 25, 100, 1000] {
            let all: Vec<_> = (1..=count).map(|at| (at, Some(0.5))).collect();
            let rows = rows(&curves(&all, &[]));
            assert!(rows.len() <= ROWS && rows.last().unwrap()[0] == grouped(count), "{count}: {}", rows.len());
        }
        assert_eq!(rows(&curves(&[], &[])).len(), 0);
    }
}
