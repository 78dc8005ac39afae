//! Each sample's gradient, mixed here and clipped by the core: integer sums make the result independent of the split.

use super::ordered_lock::{Leave, OrderedLock, share_chunks};
use super::reader::Reader;
use super::{Accumulate, GradientObserver, GradsAt, Layout, Opened, SHAPES, Sessions};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::filter::mix;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::optimizer::Optimizer;
use damper_core::private::Mechanism;
use damper_core::step::Shard;
use damper_data::{Chunk, Split};
use damper_runtime::{BackendError, Kept};
use pulp::{Arch, Simd, WithSimd};

/// The workers, and the memory of the sums of all but the first, which adds to the step's.
pub struct PerSampleGradients<W> {
    workers: Vec<Worker>,
    sums: Vec<Vec<W>>,
    layout: Layout,
}

impl<W: Copy + Default> PerSampleGradients<W> {
    /// Loads the gradient graph for each thread.
    pub fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        let layout = Layout::new(sessions.grad);
        let workers = sessions
            .each(|sessions| Ok(Worker { gradients: Reader::new(sessions)?, mixed: vec![], vectors: Arch::new() }))?;
        Ok(Self { sums: vec![vec![W::default(); layout.dim()]; workers.len().saturating_sub(1)], workers, layout })
    }
}

impl<M: Mechanism<Word: Send> + Send + Sync> Accumulate<M> for PerSampleGradients<M::Word> {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        let threads = self.workers.len();
        let layout = &self.layout;
        let turn = grad_observer.map(OrderedLock::new);
        let turn = turn.as_ref();
        let share = |index| chunks.iter().skip(index).step_by(threads).copied();
        // No thread without a chunk.
        let Some((first, others)) = self.workers.get_mut(..threads.min(chunks.len())).and_then(<[_]>::split_first_mut)
        else {
            return Ok(());
        };
        let shards = std::thread::scope(|scope| {
            let handles: Vec<_> = others
                .iter_mut()
                .zip(&mut self.sums)
                .enumerate()
                .map(|(index, (worker, sum))| {
                    let mut shard = opened.shard(sum).expect("a worker's sum has the parameters' length");
                    scope.spawn(move || {
                        let leave = turn.map(Leave);
                        worker.add(split, share(index + 1), layout, at, turn, &mut shard)?;
                        std::mem::forget(leave);
                        Ok(shard)
                    })
                })
                .collect();
            let leave = turn.map(Leave);
            first.add(split, share(0), layout, at, turn, opened)?;
            std::mem::forget(leave);
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
            // As the core judges it.
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

/// A sum that samples' gradients are added to.
trait SampleSum {
    fn add_samples(&mut self, samples: &[&[&[f32]]]);
}

impl<M: Mechanism, O: Optimizer<OS>, OS> SampleSum for Opened<'_, '_, M, O, OS> {
    #[inline(always)]
    fn add_samples(&mut self, samples: &[&[&[f32]]]) {
        self.add_each_combined(samples).expect(SHAPES);
    }
}

impl<M: Mechanism, C: Clip, K: Counts> SampleSum for Shard<'_, M, C, K> {
    #[inline(always)]
    fn add_samples(&mut self, samples: &[&[&[f32]]]) {
        self.add_each_combined(samples).expect(SHAPES);
    }
}

/// One thread's session and buffers. The memory of its shard is beside it, for the step borrows that.
struct Worker {
    gradients: Reader,
    /// Each row's gradient as mixed so far, `[rows, D]`; empty while steps have one point and one view.
    mixed: Vec<f32>,
    vectors: Arch,
}

impl Worker {
    /// Adds the samples of `chunks` to `sum`, taking gradients where `at` says and mixing them per sample. A witness is shown a chunk's
    /// when it is its turn.
    fn add<'c, S: SampleSum>(
        &mut self,
        split: &Split,
        chunks: impl Iterator<Item = Chunk<'c>>,
        layout: &Layout,
        at: GradsAt<'_>,
        turn: Option<&OrderedLock<&mut dyn GradientObserver>>,
        sum: &mut S,
    ) -> Result<(), BackendError> {
        let Self { gradients, mixed, vectors } = self;
        let dim = layout.dim();
        let params: Vec<Kept<'_>> = at.points.iter().map(|point| layout.kept(&point.params)).collect();
        for chunk in chunks {
            gradients.fill(split, chunk)?;
            if let Some(views) = &at.views {
                views.apply(&mut gradients.batch, split, chunk, 0);
            }
            // The rows after the chunk's samples are padding, and a null sample contributes nothing.
            let rows = || (0..chunk.samples.len()).filter(|row| !split.is_null(chunk.samples[*row] as usize));
            let views = at.views.map_or(1, |views| views.count());
            match at.points {
                // One gradient as it is: nothing to mix.
                [point] if point.weight == 1.0 && views == 1 && turn.is_none() => {
                    gradients.each_group(rows(), &params[0], &mut |samples| {
                        vectors.dispatch(Add { samples, sum });
                    })?;
                }
                points => {
                    mixed.resize(chunk.samples.len() * dim, 0.0);
                    for view in 0..views {
                        if let Some(views) = at.views.filter(|_| view > 0) {
                            gradients.fill(split, chunk)?;
                            views.apply(&mut gradients.batch, split, chunk, view);
                        }
                        for (index, (point, params)) in points.iter().zip(&params).enumerate() {
                            let (index, weight) = (view as usize * points.len() + index, point.weight / views as f32);
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
                            show.for_each(|(sample, mixed)| grad_observer.sample(*sample, mixed))
                        });
                    }
                    for (_, mixed) in mixed {
                        vectors.dispatch(Add { samples: &[&[mixed]], sum });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Samples' gradients on their way into a sum. Wider vectors change no bits: nothing is fused or reordered.
struct Add<'a, S> {
    samples: &'a [&'a [&'a [f32]]],
    sum: &'a mut S,
}

impl<S: SampleSum> WithSimd for Add<'_, S> {
    type Output = ();

    #[inline(always)]
    fn with_simd<V: Simd>(self, _: V) {
        self.sum.add_samples(self.samples);
    }
}
