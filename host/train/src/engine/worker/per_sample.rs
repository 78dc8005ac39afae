//! Per-sample gradients, combined here and clipped by the core. Integer sums make the result independent of the split
//! over workers.

use super::ordered_lock::{Leave, OrderedLock, share_chunks};
use super::reader::Reader;
use super::{Accumulate, GradientObserver, GradsAt, Opened, ParamLayout, Sessions};
use crate::engine::trained::Trained;
use damper_core::filter::mix;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::optimizer::Optimizer;
use damper_data::{Chunk, Split};
use damper_runtime::{BackendError, KeptInputs};

/// The workers, and the buffers of their sums. The first worker adds to the sum of the step directly.
pub struct PerSampleGradients<W> {
    workers: Vec<Worker>,
    sums: Vec<Vec<W>>,
    layout: ParamLayout,
}

impl<W: Copy + Default> PerSampleGradients<W> {
    /// Loads the gradient graph for each thread.
    pub fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let workers = sessions.each(|sessions| Ok(Worker { gradients: Reader::new(sessions)?, mixed: vec![] }))?;
        Ok(Self { sums: vec![vec![W::default(); layout.dim()]; workers.len().saturating_sub(1)], workers, layout })
    }
}

impl<M: Trained> Accumulate<M> for PerSampleGradients<M::Word> {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        let Self { workers, sums, layout } = self;
        let params: Vec<KeptInputs<'_>> = at.points.iter().map(|point| layout.kept(&point.params)).collect();
        let turn = grad_observer.map(OrderedLock::new);
        let work =
            Work { split, chunks, at, params: &params, dim: layout.dim(), threads: workers.len(), turn: turn.as_ref() };
        let work = &work;
        // Starts no thread without a chunk.
        let Some((first, others)) = workers.get_mut(..work.threads.min(chunks.len())).and_then(<[_]>::split_first_mut)
        else {
            return Ok(());
        };
        let shards = std::thread::scope(|scope| {
            let handles: Vec<_> = others
                .iter_mut()
                .zip(sums)
                .enumerate()
                .map(|(index, (worker, sum))| {
                    let mut shard = opened.shard(sum).expect("a worker's sum has the parameters' length");
                    scope.spawn(move || {
                        worker.add(work, index + 1, &mut |samples| {
                            M::add_each(shard.adding(), samples);
                        })?;
                        Ok(shard)
                    })
                })
                .collect();
            first.add(work, 0, &mut |samples| M::add_each(opened.adding(), samples))?;
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, BackendError>>()
        })?;
        for shard in shards {
            opened.merge(shard).expect("the shards are this step's");
        }
        Ok(())
    }

    fn count_non_finite(&mut self, split: &Split, chunks: &[Chunk<'_>], params: &[f32]) -> Result<u64, BackendError> {
        let Self { workers, layout, .. } = self;
        let params = layout.kept(params);
        let all = OrderedLock::new(0);
        share_chunks(workers, chunks, &all, |Worker { gradients, .. }, chunk| {
            gradients.fill(split, chunk)?;
            let mut count = 0;
            // Uses the same test as the core.
            gradients.each_row(0..chunk.samples.len(), &params, &mut |_, parts| {
                count += u64::from(!sum_of_squares(parts.iter().copied()).is_finite());
            })?;
            all.take(chunk.index, |all| *all += count);
            Ok::<(), BackendError>(())
        })?;
        Ok(all.into_inner().unwrap_or_default())
    }

    fn count(&self) -> usize {
        self.workers.len()
    }
}

/// The inputs that the workers of a step share.
struct Work<'a, 'o> {
    split: &'a Split,
    chunks: &'a [Chunk<'a>],
    at: GradsAt<'a>,
    /// The parameters of each point.
    params: &'a [KeptInputs<'a>],
    dim: usize,
    threads: usize,
    /// Passes each chunk's gradients to an observer, in chunk order.
    turn: Option<&'a OrderedLock<&'o mut (dyn GradientObserver + 'o)>>,
}

/// Adds samples to a sum, each in consecutive segments.
type AddSamples<'a> = &'a mut dyn FnMut(&[&[&[f32]]]);

/// One thread's session and buffers. Its partial sum is stored separately, because the step borrows it.
struct Worker {
    gradients: Reader,
    /// Each row's gradient as combined so far, `[rows, D]`. Empty while steps have one point and one view.
    mixed: Vec<f32>,
}

impl Worker {
    /// Passes the samples of worker `index`'s chunks to `add`, with combined gradients. If it fails, the waits of the
    /// others end.
    fn add(&mut self, work: &Work<'_, '_>, index: usize, add: AddSamples<'_>) -> Result<(), BackendError> {
        let leave = work.turn.map(Leave);
        let mut own = work.chunks.iter().skip(index).step_by(work.threads);
        own.try_for_each(|chunk| self.add_chunk(work, *chunk, add))?;
        std::mem::forget(leave);
        Ok(())
    }

    fn add_chunk(&mut self, work: &Work<'_, '_>, chunk: Chunk<'_>, add: AddSamples<'_>) -> Result<(), BackendError> {
        let Self { gradients, mixed } = self;
        let Work { split, at, params, dim, turn, .. } = *work;
        gradients.fill(split, chunk)?;
        if let Some(views) = &at.views {
            views.apply(&mut gradients.batch, split, chunk, 0);
        }
        // The rows after the chunk's samples are padding, and a null sample contributes nothing.
        let rows = || (0..chunk.samples.len()).filter(|row| !split.is_null(chunk.samples[*row] as usize));
        let views = at.views.map_or(1, |views| views.count());
        if let ([point], 1, None) = (at.points, views, turn)
            && point.weight == 1.0
        {
            // A single gradient does not need to be combined.
            return gradients.each_group(rows(), &params[0], add);
        }
        mixed.resize(chunk.samples.len() * dim, 0.0);
        for view in 0..views {
            if let Some(views) = at.views.filter(|_| view > 0) {
                gradients.fill(split, chunk)?;
                views.apply(&mut gradients.batch, split, chunk, view);
            }
            for (index, (point, params)) in at.points.iter().zip(params).enumerate() {
                let (index, weight) = (view as usize * at.points.len() + index, point.weight / views as f32);
                gradients.each_row(rows(), params, &mut |row, parts| {
                    mix(index, weight, parts, &mut mixed[row * dim..][..dim]);
                })?;
            }
        }
        let rows = chunk.samples.iter().zip(mixed.chunks(dim));
        let mixed = rows.filter(|(sample, _)| !split.is_null(**sample as usize));
        if let Some(turn) = turn {
            let show = mixed.clone();
            turn.take(chunk.index, |grad_observer| {
                show.for_each(|(sample, mixed)| grad_observer.sample(*sample, mixed));
            });
        }
        mixed.for_each(|(_, mixed)| add(&[&[mixed]]));
        Ok(())
    }
}
