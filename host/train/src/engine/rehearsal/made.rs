//! Synthetic inputs of a gradient graph.

use crate::engine::worker::ParamLayout;
use damper_grad::GradGraph;
use damper_onnx::graph::DType;
use damper_onnx::{Dim, TensorRef, TensorSpec};
use damper_runtime::SessionSpec;

/// Offset added to parameters, so that those that start at zero do not hide a gradient.
const MOVE: f32 = 0.02;

/// Returns synthetic values for the inputs of `plan`.
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
                // These are the weights of points, the clip, and the weights of samples.
                (Some(None), _) => Made::F32(vec![1.0; length]),
                (None, DType::F32) if is_label => {
                    Made::F32((0..length).map(|_| f32::from(u8::from(draw.next() > 0.0))).collect())
                }
                (None, dtype) => draw.of_data(dtype, length),
            }
        })
        .collect()
}

/// Returns synthetic values for the data inputs of `plan`, which are all of its inputs.
pub(crate) fn made_up_data(plan: &SessionSpec) -> Vec<Made> {
    let mut draw = Draw(1);
    plan.inputs.iter().map(|spec| draw.of_data(spec.dtype, spec.elements(plan.batch))).collect()
}

/// Returns true if the tensor has a row for each sample.
pub(super) fn is_by_row(spec: &TensorSpec) -> bool {
    spec.shape.first() == Some(&Dim::Batch)
}

/// Calls `change` with the values of each input that has a row per sample, and with the width of a row.
pub(crate) fn edit_samples(plan: &SessionSpec, made: &mut [Made], change: &dyn Fn(&mut Made, usize)) {
    let samples = plan.inputs.iter().zip(made).filter(|(spec, _)| is_by_row(spec));
    samples.for_each(|(spec, made)| change(made, spec.elements(1)));
}

/// Synthetic values of one input.
#[derive(Clone)]
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

    /// Returns these rows of `width` values.
    pub(crate) fn select(&self, rows: impl Iterator<Item = usize>, width: usize) -> Made {
        let ranges = rows.map(|row| row * width..(row + 1) * width);
        match self {
            Self::F32(values) => Self::F32(ranges.flat_map(|range| values[range].iter().copied()).collect()),
            Self::I64(values) => Self::I64(ranges.flat_map(|range| values[range].iter().copied()).collect()),
        }
    }

    /// Returns row `row` of `width` values.
    pub(crate) fn row(&self, row: usize, width: usize) -> TensorRef<'_> {
        let range = row * width..(row + 1) * width;
        match self {
            Self::F32(values) => TensorRef::F32(&values[range]),
            Self::I64(values) => TensorRef::I64(&values[range]),
        }
    }

    /// Moves every row of `width` values to the next row, and the last row to the first.
    pub(crate) fn rotate(&mut self, width: usize) {
        match self {
            Self::F32(values) => values.rotate_right(width),
            Self::I64(values) => values.rotate_right(width),
        }
    }

    /// Copies the first row of `width` values to all rows.
    pub(crate) fn repeat_first(&mut self, width: usize) {
        match self {
            Self::F32(values) => (width..values.len()).for_each(|index| values[index] = values[index - width]),
            Self::I64(values) => (width..values.len()).for_each(|index| values[index] = values[index - width]),
        }
    }

    /// Sets all floats of every second row, starting at `first`, to this value.
    pub(crate) fn fill_each_second(&mut self, first: usize, width: usize, value: f32) {
        if let Self::F32(values) = self {
            let rows = values.chunks_mut(width.max(1)).skip(first).step_by(2);
            rows.for_each(|row| row.fill(value));
        }
    }

    /// Replaces the values of rows 1, 3, 5 and so on.
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
    /// Returns values of samples. Indices and classes are 0 or 1, which are valid in every embedding matrix.
    fn of_data(&mut self, dtype: DType, length: usize) -> Made {
        match dtype {
            DType::I64 => Made::I64((0..length).map(|_| i64::from(self.next() > 0.0)).collect()),
            _ => Made::F32((0..length).map(|_| self.next()).collect()),
        }
    }

    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 + 0.5) / (1u64 << 23) as f32 - 1.0
    }
}
