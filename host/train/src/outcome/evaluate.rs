//! Loss, accuracy and figures by class on the held-out split.

use crate::Run;
use crate::engine::prune::keep_outputs;
use crate::engine::rehearsal::{Made, made_up};
use crate::engine::worker::{ParamLayout, new_batch};
use crate::outcome::LastIterate;
use crate::outcome::class_metrics::{ClassMetrics, MOST_CLASSES, Tally};
use crate::plan::inputs::class_axis;
use damper_core::count::held_out::HeldOutSums;
use damper_data::{Batch, BatchLabels, Labels, Split, chunks};
use damper_grad::{Loss, LossReduction};
use damper_onnx::Dim;
use damper_runtime::{Backend, BackendError, Inputs, Session, SessionSpec};
use std::num::NonZeroUsize;

/// Rows of an evaluation batch.
const ROWS: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// A session that evaluates the model.
pub(crate) struct Evaluator {
    session: Box<dyn Session>,
    batch: Batch,
    kind: Kind,
    reduction: LossReduction,
    /// Factor that converts a loss of scaled labels to the unit of the labels.
    unit: f64,
    /// Labels and predictions of the last evaluation.
    tally: Option<Tally>,
}

/// The figures of one row.
struct Row {
    loss: f32,
    /// Number of counted labels, if labels are classes.
    labels: Option<u64>,
    right: u64,
    answers: u64,
}

/// Returns the part of row `row` in a batch.
fn of_row<T>(values: &[T], row: usize) -> &[T] {
    let width = values.len() / ROWS;
    &values[row * width..][..width]
}

/// The labels of one row.
#[derive(Clone, Copy)]
enum RowLabels<'a> {
    Classes(&'a [i64]),
    Values(&'a [f32]),
    None,
}

/// The rule by which a prediction counts as right.
#[derive(Clone, Copy)]
enum Kind {
    /// The label is the argmax of the output along its class axis.
    Classes(Classes),
    /// The sign of each output matches the label's side of one half.
    Signs,
    /// No predictions count. A row's loss is the mean over its whole text.
    Text,
    /// No predictions count.
    None,
}

/// The layout of classes in one sample's output.
#[derive(Clone, Copy)]
struct Classes {
    count: usize,
    /// Distance from one class to the next.
    stride: usize,
    /// True if each label belongs to the position before it. The first label then has no prediction.
    shifts: bool,
}

/// Returns the factor from a training loss to the unit of the labels. If labels are scaled, the loss is an error,
/// squared or not.
pub(crate) fn loss_unit(run: &Run) -> f64 {
    let std = run.data.train.label_scale().map_or(1.0, |(_, std)| std);
    match run.model.derive.loss {
        Loss::L1 => std,
        // It is neither a square nor an absolute difference, so it stays in the unit of the scaled labels.
        Loss::Huber => 1.0,
        _ => std * std,
    }
}

impl Evaluator {
    /// Loads the forward part of the run's graph for the samples of `split`.
    pub(crate) fn new(backend: &dyn Backend, run: &Run, split: &Split) -> Result<Self, BackendError> {
        let grad = &run.model.grad;
        let find = |name: &str| grad.outputs.iter().find(|spec| spec.name == name).cloned();
        // An output without the samples in front has a loss, but its predictions are not read.
        let output = run.model.derive.output.as_ref().and_then(|name| find(name));
        let output = output.filter(|spec| spec.shape.first() == Some(&Dim::Batch));
        let value = run.model.graph.outputs.iter().map(|id| run.model.graph.value(*id));
        let value = value.into_iter().find(|value| output.as_ref().is_some_and(|spec| spec.name == value.name));
        let kind = match (&run.model.derive.loss, value) {
            (Loss::SoftmaxCrossEntropy | Loss::CausalLm, Some(value)) => {
                let (count, stride) = class_axis(&run.model.derive, value);
                Kind::Classes(Classes { count, stride, shifts: run.model.derive.loss == Loss::CausalLm })
            }
            (Loss::BceWithLogits, Some(_)) => Kind::Signs,
            (Loss::Ctc, _) => Kind::Text,
            _ => Kind::None,
        };
        let output = output.filter(|_| !matches!(kind, Kind::Text | Kind::None));
        let outputs: Vec<_> = find("dp.loss").into_iter().chain(output).collect();
        let plan = SessionSpec {
            batch: ROWS.get(),
            threads: 1,
            inputs: grad.inputs.iter().chain(&grad.labels).chain(&grad.parameters).cloned().collect(),
            outputs: outputs.clone(),
        };
        let names: Vec<&str> = outputs.iter().map(|spec| &*spec.name).collect();
        let model = keep_outputs(&grad.model, &names);
        let mut session = backend.load(&model, &plan)?;
        // The trial run finds models that the backend cannot run, before anything is charged.
        let made = made_up(grad, &plan, &run.model.params);
        session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |_| {})?;
        let (reduction, unit) = (run.model.derive.reduction, loss_unit(run));
        let batch = new_batch(split, ROWS, run.normalize.as_ref())?;
        Ok(Self { session, batch, kind, reduction, unit, tally: None })
    }

    /// Returns the mean loss and, if the loss has classes, the accuracy. If labels are classes, both are means over the
    /// counted labels. For a language model these are tokens.
    pub(crate) fn evaluate(
        &mut self,
        split: &Split,
        layout: &ParamLayout,
        params: &[f32],
    ) -> Result<(f64, Option<f64>), BackendError> {
        let (mut loss, mut losses) = (0.0, 0.0);
        let (mut right, mut answers) = (0u64, 0u64);
        let mean = self.reduction == LossReduction::Mean;
        let (kind, mut tally) = (self.kind, self.empty_tally(split));
        self.each_output(split, layout, params, &mut |loss_of_row, output, labels| {
            if let Some(tally) = &mut tally {
                kind.tally(output, labels, tally);
            }
            let row = kind.row(loss_of_row, output, labels);
            let counted = row.labels.map_or(1.0, |labels| labels as f64);
            loss += f64::from(row.loss) * if mean && row.labels.is_some() { counted } else { 1.0 };
            losses += counted;
            right += row.right;
            answers += row.answers;
        })?;
        self.tally = tally;
        let accuracy = (answers > 0).then(|| right as f64 / answers as f64);
        Ok((self.unit * loss / losses.max(1.0), accuracy))
    }

    /// Returns figures of the last parameters, if the run evaluates the mean `mean`. Returns `None` without a mean, or
    /// if the loss is not a number.
    pub(crate) fn last_iterate(
        &mut self,
        split: &Split,
        layout: &ParamLayout,
        params: &[f32],
        mean: Option<&[f32]>,
    ) -> Result<Option<LastIterate>, BackendError> {
        if mean.is_none() {
            return Ok(None);
        }
        let (loss, accuracy) = self.evaluate(split, layout, params)?;
        Ok(loss.is_finite().then_some(LastIterate { loss, accuracy }))
    }

    /// Returns figures by class of the last evaluation. If this process has not evaluated, it evaluates `params`.
    /// Returns `None` if the loss has no classes or too many.
    pub(crate) fn class_metrics(
        &mut self,
        split: &Split,
        layout: &ParamLayout,
        params: &[f32],
    ) -> Result<Option<ClassMetrics>, BackendError> {
        if self.tally.is_none() && self.empty_tally(split).is_some() {
            self.evaluate(split, layout, params)?;
        }
        Ok(self.tally.take().map(Tally::metrics))
    }

    /// Returns a tally for figures by class. Returns `None` if the loss has no classes or too many.
    fn empty_tally(&self, split: &Split) -> Option<Tally> {
        let outputs = match split.labels() {
            Labels::Values { values, .. } => values.len() / split.len().max(1),
            Labels::Stored { shape, values } if !values.is_integer() => shape.iter().product(),
            _ => 0,
        };
        match self.kind {
            Kind::Classes(Classes { count, .. }) if (2..=MOST_CLASSES).contains(&count) => {
                Some(Tally::of_classes(count))
            }
            Kind::Signs if (1..=MOST_CLASSES).contains(&outputs) => Some(Tally::of_outputs(outputs)),
            _ => None,
        }
    }

    /// Returns sums over the rows of `split` for a noisy release: each row's share of right predictions, and its loss
    /// divided by `loss_bound`.
    pub(crate) fn sums(
        &mut self,
        split: &Split,
        layout: &ParamLayout,
        params: &[f32],
        loss_bound: f32,
    ) -> Result<HeldOutSums<2>, BackendError> {
        let mut sums = HeldOutSums::default();
        let kind = self.kind;
        self.each_output(split, layout, params, &mut |loss, output, labels| {
            let row = kind.row(loss, output, labels);
            let share = if row.answers > 0 { row.right as f32 / row.answers as f32 } else { 0.0 };
            sums.add([share, row.loss / loss_bound]);
        })?;
        Ok(sums)
    }

    /// Calls `reader` with loss, output and labels of each row that is not null, in order.
    fn each_output(
        &mut self,
        split: &Split,
        layout: &ParamLayout,
        params: &[f32],
        reader: &mut dyn FnMut(f32, &[f32], RowLabels<'_>),
    ) -> Result<(), BackendError> {
        let samples: Vec<u32> = (0..split.len() as u32).filter(|sample| !split.is_null(*sample as usize)).collect();
        let Self { session, batch, .. } = self;
        let params = layout.kept(params);
        for chunk in chunks(&samples, ROWS) {
            batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
            let before: Vec<_> = batch.inputs().collect();
            let labels = batch.labels();
            session.run_kept(Inputs { before: &before, kept: &params, after: &[] }, &mut |outputs| {
                for (row, loss) in outputs[0][..chunk.samples.len()].iter().enumerate() {
                    let labels = match labels {
                        BatchLabels::Classes(labels) => RowLabels::Classes(of_row(labels, row)),
                        BatchLabels::Values(labels) => RowLabels::Values(of_row(labels, row)),
                        BatchLabels::None => RowLabels::None,
                    };
                    reader(*loss, outputs.get(1).map_or(&[], |output| of_row(output, row)), labels);
                }
            })?;
        }
        Ok(())
    }
}

impl Kind {
    /// The figures of one row.
    fn row(self, loss: f32, output: &[f32], labels: RowLabels<'_>) -> Row {
        let labels = self.compared(labels);
        let counted = match (self, labels) {
            // Padding tokens may be valid classes here. The mean is over texts, as in PyTorch.
            (Self::Text, _) => None,
            (_, RowLabels::Classes(labels)) => Some(labels.iter().filter(|label| **label >= 0).count() as u64),
            _ => None,
        };
        let (right, answers) = match (self, labels) {
            (Self::Classes(classes), RowLabels::Classes(labels)) => classes.judge(output, labels),
            (Self::Signs, RowLabels::Values(labels)) => signs(output, labels),
            _ => (0, 0),
        };
        Row { loss, labels: counted, right, answers }
    }

    /// Returns the labels that the outputs are compared with, from the first position on.
    fn compared(self, labels: RowLabels<'_>) -> RowLabels<'_> {
        match (self, labels) {
            (Self::Classes(Classes { shifts: true, .. }), RowLabels::Classes([_, labels @ ..])) => {
                RowLabels::Classes(labels)
            }
            _ => labels,
        }
    }

    /// Adds the counted labels of one row, their predictions and their scores to `tally`.
    fn tally(self, output: &[f32], labels: RowLabels<'_>, tally: &mut Tally) {
        match (self, self.compared(labels)) {
            (Self::Classes(classes), RowLabels::Classes(labels)) => classes.tally(output, labels, tally),
            (Self::Signs, RowLabels::Values(labels)) => {
                let all = output.iter().zip(labels).enumerate();
                all.filter(|(_, (_, label))| **label != -100.0)
                    .for_each(|(at, (score, label))| tally.add_output(at, *label > 0.5, *score > 0.0, *score));
            }
            _ => {}
        }
    }
}

impl Classes {
    /// Returns the numbers of right predictions and of predictions, among the labels of the first samples of an output.
    /// A negative label is not counted.
    fn judge(self, output: &[f32], labels: &[i64]) -> (u64, u64) {
        let mut right = 0;
        let mut answers = 0;
        self.each(output, labels, &mut |label, answer, _| {
            right += u64::from(answer == label);
            answers += 1;
        });
        (right, answers)
    }

    /// Calls `reader` with each counted label, its prediction and the index of its first logit.
    fn each(self, output: &[f32], labels: &[i64], reader: &mut dyn FnMut(usize, usize, usize)) {
        for (place, label) in labels.iter().enumerate() {
            if let Ok(label) = usize::try_from(*label) {
                let first = place / self.stride * self.count * self.stride + place % self.stride;
                let logit = |class: usize| output[first + class * self.stride];
                // Of equal maxima, the first is the prediction.
                let answer = (0..self.count).fold(0, |best, i| if logit(i) > logit(best) { i } else { best });
                reader(label, answer, first);
            }
        }
    }

    /// Adds the counted labels, their predictions and their logits to `tally`.
    fn tally(self, output: &[f32], labels: &[i64], tally: &mut Tally) {
        self.each(output, labels, &mut |label, answer, first| {
            let logits = (0..self.count).map(|class| output[first + class * self.stride]);
            tally.add_class(label, answer, logits);
        });
    }
}

/// Returns the numbers of right predictions and of predictions, among the labels of the first samples of an output. The
/// label −100 is not counted.
fn signs(output: &[f32], labels: &[f32]) -> (u64, u64) {
    let counted = || output.iter().zip(labels).filter(|(_, label)| **label != -100.0);
    let right = counted().filter(|(output, label)| (**output > 0.0) == (**label > 0.5)).count();
    (right as u64, counted().count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Padding and ignored labels are not counted.
    #[test]
    fn ignores_padding_and_ignored_labels() {
        let output = [0.1, 0.9, 0.8, 0.2, 0.3, 0.7, 9.0, 0.0];
        assert_eq!(Classes { count: 2, stride: 1, shifts: false }.judge(&output, &[1, 1, -100]), (1, 2));
        // Each label is compared with the prediction at the position before it.
        let next = Kind::Classes(Classes { count: 2, stride: 1, shifts: true });
        let row = next.row(0.5, &output, RowLabels::Classes(&[0, 1, 1, -100]));
        assert_eq!((row.labels, row.right, row.answers), (Some(2), 1, 2));
        assert_eq!(signs(&[0.5, -0.5, 0.5, 7.0], &[1.0, 1.0, -100.0]), (1, 2));
        // A text counts once, for any padding.
        for labels in [[2, 1, 0], [2, 1, -100], [-100, -100, -100]] {
            let row = Kind::Text.row(0.5, &[], RowLabels::Classes(&labels));
            assert_eq!((row.labels, row.answers), (None, 0));
        }
    }

    #[test]
    fn classes_are_read_along_their_axis() {
        // Two samples of three classes by two tokens.
        let output = [0.1, 0.9, 0.8, 0.2, 0.3, 0.7, 9.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(Classes { count: 3, stride: 2, shifts: false }.judge(&output, &[1, 0, 0, 2]), (4, 4));
        assert_eq!(Classes { count: 3, stride: 2, shifts: false }.judge(&output, &[1, 0, 1, 1]), (2, 4));
    }
}
