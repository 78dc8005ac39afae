//! The gradient graph on made-up numbers, before any sample is read: a runtime that computes a gradient wrong would train a
//! wrong model without a word.

use crate::engine::worker::{ParamLayout, plan};
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_onnx::graph::DType;
use damper_onnx::{Dim, TensorSpec};
use damper_runtime::{Backend, BackendError, SessionSpec};
use std::hash::{DefaultHasher, Hasher};
use std::num::NonZeroUsize;

/// Rows that are enough, and are not one.
const ROWS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Distance by which parameters are moved, so that those that start at zero hide no gradient.
const MOVE: f32 = 0.02;

/// Has `backend` compute the outputs of `grad` whose names begin so, near the public initial values `params`.
///
/// # Errors
///
/// The backend cannot run the graph, or computes a gradient wrong: the message names it.
pub fn self_test(
    backend: &dyn Backend,
    grad: &GradGraph,
    prefixes: &[&str],
    rows: NonZeroUsize,
    params: &[f32],
) -> Result<(), BackendError> {
    let rows = rows.min(ROWS);
    let (model, plan) = plan(grad, prefixes, rows);
    let made = made_up(grad, &plan, params);
    backend.self_test(&model, &plan, &made.iter().map(Made::input).collect::<Vec<_>>())
}

/// Result of a test of a sample's gradient on synthetic samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Independence {
    /// It has the same bits in another row of the batch, and next to other samples.
    Tested,
    /// Its bits changed with the row or with the other samples.
    Refuted,
    /// The backend sums, so there is no sample's gradient to compare.
    NotTested,
}

/// Result of a dry run of a network on synthetic samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rehearsed {
    /// The test that a sample's gradient depends on that sample alone.
    pub(crate) independence: Independence,
    /// True if no made-up sample had a finite gradient. That is a public fact.
    pub(crate) none_is_finite: bool,
}

/// Compares the gradients of made-up samples, by 64-bit hashes of their bits, with those in the next row of the batch, and with those next
/// to other samples. A batch of one row has no other row.
///
/// # Errors
///
/// The backend cannot run the graph.
pub(crate) fn independence(
    backend: &dyn Backend,
    grad: &GradGraph,
    prefixes: &[&str],
    rows: NonZeroUsize,
    params: &[f32],
) -> Result<Rehearsed, BackendError> {
    let (model, plan) = plan(grad, prefixes, rows);
    let mut session = backend.load(&model, &plan)?;
    let by_row = |spec: &TensorSpec| spec.shape.first() == Some(&Dim::Batch);
    if !plan.outputs.iter().all(by_row) {
        // One run, to see that it runs.
        let made = made_up(grad, &plan, params);
        session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |_| {})?;
        return Ok(Rehearsed { independence: Independence::NotTested, none_is_finite: false });
    }
    let rows = plan.batch;
    // Of each row a hash of 64 bits: three gradients of all rows would be the most memory that a run takes.
    let mut finite = vec![true; rows];
    let mut gradients = |made: &[Made]| -> Result<Vec<u64>, BackendError> {
        finite.fill(true);
        let mut of_rows = vec![DefaultHasher::new(); rows];
        session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |outputs| {
            for output in outputs {
                let values = output.chunks((output.len() / rows).max(1));
                for ((row, finite), values) in of_rows.iter_mut().zip(&mut finite).zip(values) {
                    values.iter().for_each(|value| row.write_u32(value.to_bits()));
                    *finite &= values.iter().all(|value| value.is_finite());
                }
            }
        })?;
        Ok(of_rows.iter().map(Hasher::finish).collect())
    };
    let mut made = made_up(grad, &plan, params);
    let first = gradients(&made)?;
    let edit = |made: &mut [Made], change: &dyn Fn(&mut Made, usize)| {
        let of_samples = plan.inputs.iter().zip(made).filter(|(spec, _)| by_row(spec));
        of_samples.for_each(|(spec, made)| change(made, spec.elements(1)));
    };
    edit(&mut made, &|made, width| made.rotate(width));
    let moved = gradients(&made)?;
    let same_when_moved = (0..rows).all(|row| first[row] == moved[(row + 1) % rows]);
    // Every second sample becomes another one.
    edit(&mut made, &|made, width| made.replace_odd(width));
    let beside = gradients(&made)?;
    let same_beside_others = (0..rows).step_by(2).all(|row| moved[row] == beside[row]);
    let independence = if same_when_moved && same_beside_others { Independence::Tested } else { Independence::Refuted };
    Ok(Rehearsed { independence, none_is_finite: finite.iter().all(|finite| !finite) })
}

/// Made-up numbers for the inputs of `plan`.
pub(crate) fn made_up(grad: &GradGraph, plan: &SessionSpec, params: &[f32]) -> Vec<Made> {
    let rows = plan.batch;
    let mut draw = Draw(1);
    let data = grad.inputs.len() + grad.labels.iter().len();
    let layout = ParamLayout::new(grad);
    let values: Vec<&[f32]> = (0..grad.points).flat_map(|_| layout.split(params)).collect();
    plan.inputs
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let length = spec.elements(rows);
            let is_label = index >= grad.inputs.len();
            match (index.checked_sub(data).map(|at| values.get(at)), spec.dtype) {
                (Some(Some(values)), _) => Made::F32(values.iter().map(|value| value + MOVE * draw.next()).collect()),
                // The points' weights, the clip, the samples' weights.
                (Some(None), _) => Made::F32(vec![1.0; length]),
                // Indices and classes of which every table has two.
                (None, DType::I64) => Made::I64((0..length).map(|_| i64::from(draw.next() > 0.0)).collect()),
                (None, _) if is_label => {
                    Made::F32((0..length).map(|_| f32::from(u8::from(draw.next() > 0.0))).collect())
                }
                (None, _) => Made::F32((0..length).map(|_| draw.next()).collect()),
            }
        })
        .collect()
}

/// Made-up numbers of one input.
pub(crate) enum Made {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Made {
    pub(crate) fn input(&self) -> TensorRef<'_> {
        match self {
            Self::F32(values) => TensorRef::F32(values),
            Self::I64(values) => TensorRef::I64(values),
        }
    }

    /// Every row of `width` numbers goes to the next row, and the last to the first.
    pub(crate) fn rotate(&mut self, width: usize) {
        match self {
            Self::F32(values) => values.rotate_right(width),
            Self::I64(values) => values.rotate_right(width),
        }
    }

    /// The first row of `width` numbers in all rows.
    pub(crate) fn repeat_first(&mut self, width: usize) {
        match self {
            Self::F32(values) => (width..values.len()).for_each(|index| values[index] = values[index - width]),
            Self::I64(values) => (width..values.len()).for_each(|index| values[index] = values[index - width]),
        }
    }

    /// This number in all floats of rows 1, 3, 5 and so on.
    pub(crate) fn fill_odd(&mut self, width: usize, value: f32) {
        if let Self::F32(values) = self {
            let rows = values.chunks_mut(width.max(1)).skip(1).step_by(2);
            rows.for_each(|row| row.fill(value));
        }
    }

    /// Other numbers in rows 1, 3, 5 and so on.
    pub(crate) fn replace_odd(&mut self, width: usize) {
        let odd = |index: &usize| index / width.max(1) % 2 == 1;
        match self {
            Self::F32(values) => {
                (0..values.len()).filter(odd).for_each(|index| values[index] = 1.0 - 3.0 * values[index]);
            }
            Self::I64(values) => (0..values.len()).filter(odd).for_each(|index| values[index] = 1 - values[index]),
        }
    }
}

/// A fixed sequence in (−1, 1).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 + 0.5) / (1u64 << 23) as f32 - 1.0
    }
}
