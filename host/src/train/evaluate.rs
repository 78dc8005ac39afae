//! Loss and accuracy on the held-out split.

use super::prune::keep_outputs;
use super::worker::Layout;
use crate::autodiff::{GradGraph, Loss};
use crate::backend::{Backend, BackendError, Input, Plan, Session};
use crate::data::{Batch, BatchLabels, Split, chunks};
use prost::Message;
use std::num::NonZeroUsize;

/// Rows of an evaluation batch.
const ROWS: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// A session that evaluates.
pub(super) struct Evaluator {
    session: Box<dyn Session>,
    batch: Batch,
    kind: Kind,
}

/// What counts as right.
#[derive(Clone, Copy)]
enum Kind {
    /// The largest entry of the output is the label's.
    Classes,
    /// The sign of each output is the label's side of one half.
    Signs,
    /// Nothing does.
    None,
}

impl Evaluator {
    /// Loads the forward part of `grad` for the samples of `split`.
    pub(super) fn new(
        backend: &dyn Backend,
        grad: &GradGraph,
        loss: &Loss,
        output: &str,
        split: &Split,
    ) -> Result<Self, BackendError> {
        let kind = match loss {
            Loss::SoftmaxCrossEntropy => Kind::Classes,
            Loss::BceWithLogits => Kind::Signs,
            Loss::Mse | Loss::Output(_) => Kind::None,
        };
        let output = match kind {
            Kind::None => None,
            Kind::Classes | Kind::Signs => Some(output),
        };
        let names: Vec<&str> = ["dp.loss"].into_iter().chain(output).collect();
        let find = |name: &&str| grad.outputs.iter().find(|spec| spec.name == *name).cloned();
        let plan = Plan {
            batch: ROWS.get(),
            threads: 1,
            inputs: grad.inputs.iter().chain(&grad.labels).chain(&grad.parameters).cloned().collect(),
            outputs: names.iter().filter_map(find).collect(),
        };
        let model = keep_outputs(&grad.model, &names);
        Ok(Self { session: backend.load(&model.encode_to_vec(), &plan)?, batch: Batch::new(split, ROWS), kind })
    }

    /// Mean loss and, where the loss has classes, the share of right answers.
    pub(super) fn evaluate(
        &mut self,
        split: &Split,
        layout: &Layout,
        params: &[f32],
    ) -> Result<(f64, Option<f64>), BackendError> {
        let samples: Vec<u32> = (0..split.len() as u32).filter(|sample| !split.is_null(*sample as usize)).collect();
        let (mut loss, mut right, mut answers) = (0.0, 0u64, 0u64);
        let Self { session, batch, kind } = self;
        for chunk in chunks(&samples, ROWS) {
            batch.fill(split, chunk);
            let inputs: Vec<_> = batch.inputs().chain(layout.split(params).map(Input::F32)).collect();
            let labels = batch.labels();
            session.run(&inputs, &mut |outputs| {
                let rows = chunk.samples.len();
                loss += outputs[0][..rows].iter().map(|loss| f64::from(*loss)).sum::<f64>();
                let (r, n) = match (*kind, labels) {
                    (Kind::Classes, BatchLabels::Classes(labels)) => {
                        classes(outputs[1], &labels[..labels.len() / ROWS * rows], labels.len())
                    }
                    (Kind::Signs, BatchLabels::Values(labels)) => {
                        let pairs = || outputs[1].iter().zip(labels).take(labels.len() / ROWS * rows);
                        let right = pairs().filter(|(output, label)| (**output > 0.0) == (**label > 0.5)).count();
                        (right as u64, pairs().count() as u64)
                    }
                    _ => (0, 0),
                };
                right += r;
                answers += n;
            })?;
        }
        let accuracy = (answers > 0).then(|| right as f64 / answers as f64);
        Ok((loss / samples.len() as f64, accuracy))
    }
}

/// Right answers and answers among the first `labels.len()` of the `all` positions of an output whose last axis is the
/// classes. A label below 0 is not counted.
fn classes(output: &[f32], labels: &[i64], all: usize) -> (u64, u64) {
    let width = output.len() / all;
    let mut right = 0;
    let mut answers = 0;
    for (logits, label) in output.chunks_exact(width).zip(labels) {
        if let Ok(label) = usize::try_from(*label) {
            // The first of equal largest entries answers.
            let answer =
                logits.iter().enumerate().fold(0, |best, (i, logit)| if *logit > logits[best] { i } else { best });
            right += u64::from(answer == label);
            answers += 1;
        }
    }
    (right, answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_ignored_labels_are_not_counted() {
        let output = [0.1, 0.9, 0.8, 0.2, 0.3, 0.7, 9.0, 0.0];
        assert_eq!(classes(&output, &[1, 1, -100], 4), (1, 2));
    }
}
