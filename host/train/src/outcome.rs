//! The result of training, and the events during a run.

pub(crate) mod best;
pub(crate) mod class_metrics;
pub(crate) mod data_names;
pub(crate) mod evaluate;
pub(crate) mod figures;
pub(crate) mod guess;
pub(crate) mod progress;
pub(crate) mod r_squared;
pub(crate) mod released;

use crate::config::release_non_finite::NonFiniteCount;
use crate::engine::rehearsal::Independence;
use crate::outcome::class_metrics::ClassMetrics;
use damper_accounting::Recorded;
use damper_data::Normalize;
use damper_runtime::{HostNode, Operators};
use serde::{Deserialize, Serialize};

/// The outcome of training. All of it is released or public.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The trained parameters, flat, in the order of `grad.parameters`.
    pub params: Vec<f32>,
    /// Number of charged steps: all of the plan, unless the run was stopped.
    pub steps: u32,
    /// True if the run was asked to stop before its last step.
    pub stopped: bool,
    /// Number of steps taken, if the run ended early because its evaluations stopped improving. All planned steps are
    /// charged.
    pub ended_early: Option<u32>,
    /// The parameters of the best evaluation, flat like `params`, if the run ended early.
    pub best: Option<Vec<f32>>,
    /// Charged steps that released no usable gradient because a stop lost them.
    pub lost_steps: u32,
    /// The event of each draw. ε follows from these.
    pub recorded: Recorded,
    /// Seconds of training, evaluation included.
    pub seconds: f64,
    /// Figures on the held-out split, in time order. The last entry is from the end of the run.
    pub evaluations: Vec<Evaluation>,
    /// Figures by class on the held-out split at the end. `None` if they are not released, the run was stopped, or the
    /// loss has no classes.
    pub class_metrics: Option<ClassMetrics>,
    /// Exact held-out figures of the last parameters, if the run evaluates and writes a mean of parameters.
    pub last_iterate: Option<LastIterate>,
    /// The result of a test before the run that a sample's gradient depends on that sample alone.
    pub independence: Independence,
    /// The output, the rows and the values that failed this test, as text.
    pub difference: Option<String>,
    /// The nodes of the run's graphs that ran on the processor. `None` if the backend has no device.
    pub host_nodes: Option<Vec<HostNode>>,
    /// True if the requested recording contains the run.
    pub is_recorded: bool,
    /// The released means and deviations that normalised the features, if the run released any.
    pub normalize: Option<Normalize>,
    /// The released number of training rows without a finite gradient, if the run released it.
    pub non_finite: Option<NonFiniteCount>,
    /// Name of the backend that ran.
    pub backend: &'static str,
    /// Version of this backend.
    pub backend_version: String,
    /// The operators that the backend ran.
    pub operators: Operators,
    /// Number of threads that ran.
    pub workers: usize,
    /// The clip of the next step: a constant, or learned from released counts.
    pub clip: f32,
}

/// Held-out figures of the parameters after the last step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LastIterate {
    /// Mean loss.
    pub loss: f64,
    /// Accuracy, if the loss has classes.
    pub accuracy: Option<f64>,
}

/// Figures on the held-out split.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Evaluation {
    /// Number of steps before the evaluation.
    pub step: u32,
    /// Passes over the data before the evaluation.
    pub epoch: f64,
    /// ε of these steps.
    pub epsilon: f64,
    /// Mean loss.
    pub loss: f64,
    /// Accuracy, if the loss has classes.
    pub accuracy: Option<f64>,
}

impl Evaluation {
    /// Returns true if none of the last `patience` evaluations improves on the best before them. Compares accuracy, or
    /// loss without an accuracy.
    pub(crate) fn has_stalled(evaluations: &[Self], patience: u32) -> bool {
        Self::best_index(evaluations).is_some_and(|index| evaluations.len() - 1 - index >= patience as usize)
    }

    /// Returns the first of the best evaluations. Compares accuracy, or loss without an accuracy.
    #[must_use]
    pub fn best(evaluations: &[Self]) -> Option<&Self> {
        Self::best_index(evaluations).and_then(|index| evaluations.get(index))
    }

    fn best_index(evaluations: &[Self]) -> Option<usize> {
        let score = |at: &Self| at.accuracy.unwrap_or(-at.loss);
        let mut best: Option<(usize, f64)> = None;
        for (index, score) in evaluations.iter().map(score).enumerate() {
            if best.is_none_or(|(_, best)| score > best) {
                best = Some((index, score));
            }
        }
        best.map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(scores: &[f64], patience: u32, by_loss: bool) -> bool {
        let of = |score: f64| {
            let (loss, accuracy) = if by_loss { (-score, None) } else { (0.0, Some(score)) };
            Evaluation { step: 0, epoch: 0.0, epsilon: 0.0, loss, accuracy }
        };
        Evaluation::has_stalled(&scores.iter().map(|score| of(*score)).collect::<Vec<_>>(), patience)
    }

    #[test]
    fn evaluations_stall_without_a_better_one() {
        for by_loss in [false, true] {
            assert!(!stalls(&[], 1, by_loss));
            assert!(!stalls(&[0.1], 1, by_loss));
            assert!(stalls(&[0.1, 0.1], 1, by_loss), "an equal one is no better");
            assert!(!stalls(&[0.1, 0.05], 2, by_loss));
            assert!(stalls(&[0.1, 0.05, 0.09], 2, by_loss));
            assert!(!stalls(&[0.1, 0.05, 0.2], 2, by_loss));
            assert!(stalls(&[0.3, 0.1, 0.2], 2, by_loss), "better than the last is not better than the best");
            assert!(stalls(&[0.3, f64::NAN, f64::NAN], 2, by_loss));
        }
    }
}
