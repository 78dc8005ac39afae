//! Gradients of a chunk that the backend clips and sums in floats. This is **not exact**, but the backend returns only
//! one gradient-sized vector per chunk.
//!
//! The sums of the chunks are added in chunk order, regardless of the worker. So the result does not depend on the
//! number of workers. A backend that keeps sums on its device has one worker (`device_sum`).

use super::device_sum::{DeviceSum, counted, unclipped};
use super::ordered_lock::{OrderedLock, share_chunks};
use super::{Accumulate, GradientObserver, GradsAt, Opened, ParamLayout, Point, SUMS, Sessions, fill};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::noise::ContinuousGaussian;
use damper_core::optimizer::Optimizer;
use damper_core::private::SumWord;
use damper_core::step::{FloatSum, Shard};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{BackendError, Inputs, KeptInputs, Session};

/// The workers, and the buffer of their sum.
pub(crate) struct ClippedSums {
    by: By,
    sum: Vec<SumWord<f32>>,
    layout: ParamLayout,
    /// Number of points in the graph, at least as many as a step has.
    points: usize,
    threads: usize,
}

/// The location of the sum over chunks.
enum By {
    /// The core adds, in chunk order.
    Workers(Vec<Worker>),
    /// The backend adds, in its own memory.
    Device(Box<DeviceSum>),
}

struct Worker {
    session: Box<dyn Session>,
    batch: Batch,
    norms: Vec<f32>,
}

impl ClippedSums {
    /// Loads the graph of clipped sums for each thread, or once for the backend's device.
    pub(crate) fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let by = match DeviceSum::new(sessions)? {
            Some(device) => By::Device(Box::new(device)),
            None => By::Workers(sessions.each(|sessions| {
                Ok(Worker { session: sessions.load(&SUMS)?, batch: sessions.batch()?, norms: vec![] })
            })?),
        };
        Ok(Self {
            by,
            sum: vec![SumWord::ZERO; layout.dim()],
            layout,
            points: sessions.grad.points,
            threads: sessions.threads,
        })
    }
}

impl ClippedSums {
    /// Returns the weights of the graph's points.
    fn mix(&self, points: &[Point]) -> Vec<f32> {
        let mix: Vec<f32> = (0..self.points).map(|index| points.get(index).map_or(0.0, |point| point.weight)).collect();
        debug_assert!(self.points > 1 || mix == [1.0], "a filter's only point has weight 1");
        mix
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
        let clip = [opened.clip()];
        let mix = self.mix(at.points);
        let kept = kept(&self.layout, at.points, &mix, &clip);

        let mut shard = opened.shard(&mut self.sum).expect("the sum has the parameters' length");
        let shard = match &mut self.by {
            By::Device(device) => {
                device.add(split, chunks, &kept, clip[0], &mut shard)?;
                shard
            }
            By::Workers(workers) => {
                let turn = OrderedLock::new(shard);
                share_chunks(workers, chunks, &turn, |worker, chunk| worker.add(split, chunk, &kept, clip[0], &turn))?;
                turn.into_inner().expect("no worker failed")
            }
        };
        opened.merge(shard).expect("the shard is this step's");
        Ok(())
    }

    fn count_non_finite(&mut self, split: &Split, chunks: &[Chunk<'_>], params: &[f32]) -> Result<u64, BackendError> {
        let points = [Point { params: params.to_vec(), weight: 1.0 }];
        let mix = self.mix(&points);
        let kept = kept(&self.layout, &points, &mix, &[1.0]);
        let workers = match &mut self.by {
            By::Device(device) => {
                return chunks.iter().map(|chunk| device.count_non_finite(split, *chunk, &kept)).sum();
            }
            By::Workers(workers) => workers,
        };
        let all = OrderedLock::new(0);
        share_chunks(workers, chunks, &all, |Worker { session, batch, .. }, chunk| {
            fill(batch, split, chunk)?;
            let before: Vec<TensorRef<'_>> = batch.inputs().collect();
            let inputs = Inputs { before: &before, kept: &kept, after: &[TensorRef::F32(batch.weights())] };
            let mut count = 0;
            session.run_kept(inputs, &mut |outputs| {
                count = counted(outputs[0], batch).filter(|norm| !norm.is_finite()).count() as u64;
            })?;
            all.take(chunk.index, |all| *all += count);
            Ok::<(), BackendError>(())
        })?;
        Ok(all.into_inner().unwrap_or_default())
    }

    fn count(&self) -> usize {
        match &self.by {
            By::Device(_) => 1,
            By::Workers(workers) => workers.len(),
        }
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

/// Returns the inputs that the chunks of a step share: the parameters at each point of `mix`, the weights if there are
/// several, and the clip.
fn kept<'a>(layout: &'a ParamLayout, points: &'a [Point], mix: &'a [f32], clip: &'a [f32]) -> KeptInputs<'a> {
    // A step may have fewer points than the graph. The other points repeat point 0 with weight 0.
    let at = |index: usize| points.get(index).unwrap_or(&points[0]);
    let params = (0..mix.len()).flat_map(|index| layout.split(&at(index).params));
    let weights = Some(mix).filter(|mix| mix.len() > 1);
    KeptInputs::new(params.chain(weights).chain([clip]).map(TensorRef::F32).collect())
}

impl Worker {
    /// Adds the clipped sum of `chunk` in chunk order, or nothing if another worker failed.
    fn add<C: Clip, K: Counts>(
        &mut self,
        split: &Split,
        chunk: Chunk<'_>,
        kept: &KeptInputs<'_>,
        bound: f32,
        turn: &OrderedLock<Shard<'_, ContinuousGaussian, C, K>>,
    ) -> Result<(), BackendError> {
        let Self { session, batch, norms } = self;
        fill(batch, split, chunk)?;
        let before: Vec<TensorRef<'_>> = batch.inputs().collect();
        let inputs = Inputs { before: &before, kept, after: &[TensorRef::F32(batch.weights())] };
        let mut added = Ok(());
        session.run_kept(inputs, &mut |outputs| {
            let (all_norms, parts) = outputs.split_first().expect("dp.norm is read");
            norms.clear();
            norms.extend(counted(all_norms, batch));
            let sum = FloatSum { parts, bound, norms };
            added = turn.take(chunk.index, |shard| shard.add_float_sum(sum)).unwrap_or(Ok(()));
        })?;
        added.map_err(unclipped)
    }
}
