//! Held-out figures over the run, from `metrics.csv`.

use crate::record::TestFigures;
use serde::Serialize;

/// Figures on the held-out samples after a step. Figures that are missing or not finite are `None`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AtEvaluation {
    /// Number of steps taken.
    pub steps: u64,
    /// Accuracy, if the loss has classes.
    pub accuracy: Option<f64>,
    /// Mean loss.
    pub loss: Option<f64>,
}

/// Returns the evaluations in the text of `metrics.csv`, in time order. `None` if it is damaged.
pub(super) fn parse(text: &str) -> Option<Vec<AtEvaluation>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name);
    let (steps, accuracy, loss) = (column("step")?, column("test_accuracy")?, column("test_loss")?);
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let figure = |at: usize| match *cells.get(at)? {
            "" => Some(None),
            text => text.parse().ok().map(|value: f64| Some(value).filter(|value| value.is_finite())),
        };
        Some(AtEvaluation { steps: cells.get(steps)?.parse().ok()?, accuracy: figure(accuracy)?, loss: figure(loss)? })
    });
    let rows: Vec<_> = rows.collect::<Option<_>>()?;
    rows.is_sorted_by_key(|row| row.steps).then_some(rows)
}

/// Returns the last accuracy or loss if it differs from the record's: its name, its value and the record's.
pub(crate) fn last_difference(
    evaluations: &[AtEvaluation],
    test: &TestFigures,
) -> Option<(&'static str, String, String)> {
    let last = evaluations.last()?;
    let text = |figure: Option<f64>| figure.map_or("none".into(), |figure| figure.to_string());
    let all = [("a last accuracy of", last.accuracy, test.accuracy), ("a last loss of", last.loss, test.loss)];
    let (of, claimed, found) = all.into_iter().find(|(_, claimed, found)| claimed != found)?;
    Some((of, text(claimed), text(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "step,epoch,epsilon,test_loss,test_accuracy,run,test_metrics\n";

    #[test]
    fn evaluations_are_read_by_column() {
        let text = format!("{HEAD}3,0.5,1.25,0.75,,private,exact\n6,1,1.5,inf,0.5,private,exact\n");
        let rows = [
            AtEvaluation { steps: 3, accuracy: None, loss: Some(0.75) },
            AtEvaluation { steps: 6, accuracy: Some(0.5), loss: None },
        ];
        assert_eq!(parse(&text), Some(rows.to_vec()));
        assert_eq!(parse("test_accuracy,step,test_loss\n0.5,7,1\n").map(|rows| rows[0].steps), Some(7));
        assert_eq!(parse(HEAD), Some(vec![]));
    }

    #[test]
    fn damaged_tables_are_refused() {
        for rows in ["3,0.5\n", "x,0,0,0,0\n", "3,0,0,zero,0\n", "6,0,0,1,1\n3,0,0,1,1\n", "-1,0,0,1,1\n"] {
            assert_eq!(parse(&format!("{HEAD}{rows}")), None, "{rows}");
        }
        assert_eq!(parse(""), None);
        assert_eq!(parse("step,test_loss\n1,2\n"), None);
    }

    #[test]
    fn last_figures_are_those_of_the_record() {
        let of = |accuracy, loss| TestFigures { accuracy, loss, perplexity: None, r_squared: None };
        let rows = [AtEvaluation { steps: 3, accuracy: Some(0.5), loss: Some(1.0) }];
        assert_eq!(last_difference(&rows, &of(Some(0.5), Some(1.0))), None);
        assert_eq!(last_difference(&[], &of(Some(0.5), Some(1.0))), None);
        let found = last_difference(&rows, &of(Some(0.75), Some(1.0)));
        assert_eq!(found, Some(("a last accuracy of", "0.5".into(), "0.75".into())));
        assert!(last_difference(&rows, &of(Some(0.5), None)).is_some());
    }
}
