//! One thread's share of a step: a session of its own, a batch of its own, a sum of its own.
//!
//! Samples are split over one-thread sessions rather than operators over threads: it is faster on networks of every size
//! met here, and integer sums make the result independent of the split.

use crate::autodiff::{Dim, GradGraph};
use crate::backend::{Backend, BackendError, Input, Plan, Session};
use crate::data::{Batch, Chunk, Split};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::filter::mix;
use damper_core::private::Mechanism;
use damper_core::step::Shard;
use std::num::NonZeroUsize;

/// How the names of gradients begin in an emitted graph.
const GRAD: &str = "dp.grad.";

/// The names of the gradients, in the parameters' order.
pub(super) fn grad_outputs(grad: &GradGraph) -> Vec<&str> {
    grad.outputs.iter().map(|spec| spec.name.as_str()).filter(|name| name.starts_with(GRAD)).collect()
}

/// Offsets of the parameters in the flat vector, in order, and its length.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    lengths: Vec<usize>,
}

impl Layout {
    pub(super) fn new(grad: &GradGraph) -> Self {
        let length =
            |shape: &[Dim]| shape.iter().map(|dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 }).product();
        Self { lengths: grad.parameters.iter().map(|spec| length(&spec.shape)).collect() }
    }

    /// Number of parameters in all.
    pub(super) fn dim(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Lengths of the parameters.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The parts of a flat vector, one a parameter.
    pub(super) fn split<'a>(&'a self, flat: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
        let mut rest = flat;
        self.lengths.iter().map(move |length| {
            let (part, after) = rest.split_at(*length);
            rest = after;
            part
        })
    }
}

/// Where a step wants gradients, and with which weight they are mixed.
#[derive(Clone, Default, Debug)]
pub(super) struct Point {
    pub(super) params: Vec<f32>,
    pub(super) weight: f32,
}

/// One thread's session and buffers. The memory of its shard is beside it, for the step borrows that.
pub(super) struct Worker {
    session: Box<dyn Session>,
    batch: Batch,
    /// Each row's gradient as mixed so far, `[rows, D]`; empty while steps have one point.
    mixed: Vec<f32>,
}

impl Worker {
    /// Loads the gradient graph for one thread.
    pub(super) fn new(
        backend: &dyn Backend,
        grad: &GradGraph,
        model: &[u8],
        split: &Split,
        rows: NonZeroUsize,
    ) -> Result<Self, BackendError> {
        let plan = Plan {
            batch: rows.get(),
            threads: 1,
            inputs: grad.inputs.iter().chain(&grad.labels).chain(&grad.parameters).cloned().collect(),
            outputs: grad.outputs.iter().filter(|spec| spec.name.starts_with(GRAD)).cloned().collect(),
        };
        Ok(Self { session: backend.load(model, &plan)?, batch: Batch::new(split, rows), mixed: vec![] })
    }

    /// Adds the samples of `chunks` to `shard`, taking gradients at `points` and mixing them per sample.
    pub(super) fn add<'c, M: Mechanism, C: Clip, K: Counts>(
        &mut self,
        split: &Split,
        chunks: impl Iterator<Item = Chunk<'c>>,
        layout: &Layout,
        points: &[Point],
        shard: &mut Shard<'_, M, C, K>,
    ) -> Result<(), BackendError> {
        for chunk in chunks {
            self.batch.fill(split, chunk);
            match points {
                // One gradient as it is: nothing to mix.
                [point] if point.weight == 1.0 => {
                    each_row(self.session.as_mut(), &self.batch, split, chunk, layout, point, &mut |_, parts| {
                        shard.add_mixed(parts).expect(SHAPES);
                    })?;
                }
                points => {
                    let dim = layout.dim();
                    self.mixed.resize(chunk.samples.len() * dim, 0.0);
                    let mixed = &mut self.mixed;
                    for (index, point) in points.iter().enumerate() {
                        each_row(
                            self.session.as_mut(),
                            &self.batch,
                            split,
                            chunk,
                            layout,
                            point,
                            &mut |row, parts| {
                                mix(index, point.weight, parts, &mut mixed[row * dim..][..dim]);
                            },
                        )?;
                    }
                    for (sample, mixed) in chunk.samples.iter().zip(self.mixed.chunks(dim)) {
                        if !split.is_null(*sample as usize) {
                            shard.add_mixed(&[mixed]).expect(SHAPES);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

const SHAPES: &str = "the graph's gradients have the parameters' shapes";

/// Hands each of a chunk's gradients at `point` to `reader`, by its row and in consecutive parts. The rows after the
/// chunk's samples are padding, and a null sample contributes nothing.
fn each_row(
    session: &mut dyn Session,
    batch: &Batch,
    split: &Split,
    chunk: Chunk<'_>,
    layout: &Layout,
    point: &Point,
    reader: &mut dyn FnMut(usize, &[&[f32]]),
) -> Result<(), BackendError> {
    let inputs: Vec<_> = batch.inputs().chain(layout.split(&point.params).map(Input::F32)).collect();
    session.run(&inputs, &mut |grads| {
        let mut parts: Vec<&[f32]> = Vec::with_capacity(grads.len());
        for (row, sample) in chunk.samples.iter().enumerate() {
            if split.is_null(*sample as usize) {
                continue;
            }
            parts.clear();
            parts.extend(grads.iter().zip(&layout.lengths).map(|(grad, length)| &grad[row * length..][..*length]));
            reader(row, &parts);
        }
    })
}
