//! `metrics.csv`: the held-out figures over the run, a line for each evaluation.

use super::fields::TrainReport;
use damper_accounting::RunKind;
use damper_train::{Evaluation, TestMetrics};

impl TrainReport {
    /// Returns the lines of `metrics.csv`: `step,epoch,epsilon,test_loss,test_accuracy,run,test_metrics`.
    ///
    /// A missing figure is empty, and so is an ε of a run that is not private.
    pub fn metrics(run: RunKind, metrics: TestMetrics, evaluations: &[Evaluation]) -> String {
        let mut text = String::from("step,epoch,epsilon,test_loss,test_accuracy,run,test_metrics\n");
        let metrics = metrics.name();
        for at in evaluations {
            let accuracy = at.accuracy.map(|accuracy| accuracy.to_string()).unwrap_or_default();
            let epsilon = if run == RunKind::NotPrivate { String::new() } else { at.epsilon.to_string() };
            text.push_str(&format!("{},{},{epsilon},{},{accuracy},{run},{metrics}\n", at.step, at.epoch, at.loss));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_there_is_not_is_left_empty() {
        let at = Evaluation { step: 3, epoch: 0.5, epsilon: 1.25, loss: 0.75, accuracy: None };
        let with = Evaluation { step: 6, accuracy: Some(0.5), ..at };
        assert_eq!(
            TrainReport::metrics(RunKind::Simulation, TestMetrics::Exact, &[at, with]),
            "step,epoch,epsilon,test_loss,test_accuracy,run,test_metrics\n3,0.5,1.25,0.75,,simulation,exact\n\
             6,0.5,1.25,0.75,0.5,simulation,exact\n"
        );
        let not_private = Evaluation { epsilon: f64::INFINITY, ..with };
        let text = TrainReport::metrics(RunKind::NotPrivate, TestMetrics::Exact, &[not_private]);
        assert!(text.ends_with("\n6,0.5,,0.75,0.5,not private,exact\n"), "{text}");
    }
}
