//! A chunk's gradients clipped and summed by the backend, in its floats: **not exact**, but one gradient-sized vector a chunk
//! leaves it.
//!
//! The sums of the chunks are added in the chunks' order whoever made them, so the result does not depend on the number of
//! workers.

use super::ordered_lock::{OrderedLock, share_chunks};
use super::{Accumulate, GradientObserver, GradsAt, Layout, Opened, SUMS, load};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::noise::ContinuousGaussian;
use damper_core::optimizer::Optimizer;
use damper_core::private::SumWord;
use damper_core::step::{FloatSum, Shard};
use damper_data::{Batch, Chunk, Split};
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_runtime::{Backend, BackendError, Session};
use std::num::NonZeroUsize;

/// The workers, and the memory of their one sum.
pub(crate) struct ClippedSums {
    workers: Vec<Worker>,
    sum: Vec<SumWord<f32>>,
    layout: Layout,
    /// Points of the graph, at least as many as a step has.
    points: usize,
}

struct Worker {
    session: Box<dyn Session>,
    batch: Batch,
    norms: Vec<f32>,
}

impl ClippedSums {
    /// Loads the graph of clipped sums for each of `threads` threads.
    pub(crate) fn new(
        backend: &dyn Backend,
        grad: &GradGraph,
        split: &Split,
        rows: NonZeroUsize,
        threads: usize,
    ) -> Result<Self, BackendError> {
        let layout = Layout::new(grad);
        let worker = |_| {
            let session = load(backend, grad, &SUMS, rows)?;
            Ok(Worker { session, batch: Batch::new(split, rows), norms: vec![] })
        };
        let workers = (0..threads).map(worker).collect::<Result<_, BackendError>>()?;
        Ok(Self { workers, sum: vec![SumWord::ZERO; layout.dim()], layout, points: grad.points })
    }
}

impl Accumulate<ContinuousGaussian> for ClippedSums {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, ContinuousGaussian, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        _: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        debug_assert!(at.views.is_none(), "views are for per-sample gradients");
        let points = at.points;
        let clip = [opened.clip()];
        // A step may have fewer points than the graph: the others are point 0 once more, with weight 0.
        let at = |index: usize| points.get(index).unwrap_or(&points[0]);
        let mix: Vec<f32> = (0..self.points).map(|index| points.get(index).map_or(0.0, |point| point.weight)).collect();
        debug_assert!(self.points > 1 || mix == [1.0], "a filter's only point has weight 1");
        let layout = &self.layout;
        let params: Vec<TensorRef<'_>> =
            (0..self.points).flat_map(|index| layout.split(&at(index).params)).map(TensorRef::F32).collect();
        let mut rest: Vec<TensorRef<'_>> = Vec::new();
        if self.points > 1 {
            rest.push(TensorRef::F32(&mix));
        }
        rest.push(TensorRef::F32(&clip));

        let shard = opened.shard(&mut self.sum).expect("the sum has the parameters' length");
        let turn = OrderedLock::new(shard);
        share_chunks(&mut self.workers, chunks, &turn, |worker, chunk| {
            worker.add(split, chunk, &params, &rest, clip[0], &turn)
        })?;
        let shard = turn.into_inner().expect("no worker failed");
        opened.merge(shard).expect("the shard is this step's");
        Ok(())
    }

    fn count(&self) -> usize {
        self.workers.len()
    }
}

impl Worker {
    /// Adds the clipped sum of `chunk` when it is its turn, or nothing where another worker failed.
    fn add<C: Clip, K: Counts>(
        &mut self,
        split: &Split,
        chunk: Chunk<'_>,
        params: &[TensorRef<'_>],
        rest: &[TensorRef<'_>],
        bound: f32,
        turn: &OrderedLock<Shard<'_, ContinuousGaussian, C, K>>,
    ) -> Result<(), BackendError> {
        let Self { session, batch, norms } = self;
        batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
        let data = batch.inputs().chain(params.iter().copied()).chain(rest.iter().copied());
        let inputs: Vec<TensorRef<'_>> = data.chain([TensorRef::F32(batch.weights())]).collect();
        let mut added = Ok(());
        session.run(&inputs, &mut |outputs| {
            let (all_norms, parts) = outputs.split_first().expect("dp.norm is read");
            norms.clear();
            norms.extend(
                all_norms.iter().zip(batch.weights()).filter(|(_, weight)| **weight != 0.0).map(|(norm, _)| *norm),
            );
            let sum = FloatSum { parts, bound, norms };
            added = turn.take(chunk.index, |shard| shard.add_float_sum(sum)).unwrap_or(Ok(()));
        })?;
        added.map_err(|error| BackendError(format!("the backend's clipped sum: {error}; use `readout` per-sample")))
    }
}
