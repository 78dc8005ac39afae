//! Each sample's gradient, mixed here and clipped by the core: integer sums make the result independent of the split.

use super::ordered_lock::{Leave, OrderedLock};
use super::parts::{OUTPUTS, Parts};
use super::{Accumulate, GradientObserver, GradsAt, Layout, Opened, Point, SHAPES, load};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::filter::mix;
use damper_core::mutant::{self, Mutant};
use damper_core::optimizer::Optimizer;
use damper_core::private::Mechanism;
use damper_core::step::Shard;
use damper_data::{Batch, Chunk, Split};
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_runtime::{Backend, BackendError, Session};
use pulp::{Arch, Simd, WithSimd};
use std::num::NonZeroUsize;

/// The workers, and the memory of their sums.
pub(crate) struct PerSampleGradients<W> {
    workers: Vec<Worker>,
    sums: Vec<Vec<W>>,
    layout: Layout,
}

impl<W: Copy + Default> PerSampleGradients<W> {
    /// Loads the gradient graph for each of `threads` threads.
    pub(crate) fn new(
        backend: &dyn Backend,
        grad: &GradGraph,
        split: &Split,
        rows: NonZeroUsize,
        threads: usize,
    ) -> Result<Self, BackendError> {
        let layout = Layout::new(grad);
        let worker = |_| {
            let session = load(backend, grad, &OUTPUTS, rows)?;
            Ok(Worker {
                session,
                parts: Parts::new(backend, grad),
                batch: Batch::new(split, rows),
                mixed: vec![],
                vectors: Arch::new(),
            })
        };
        let workers = (0..threads).map(worker).collect::<Result<_, BackendError>>()?;
        Ok(Self { workers, sums: vec![vec![W::default(); layout.dim()]; threads], layout })
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
        let shards = std::thread::scope(|scope| {
            let handles: Vec<_> = self
                .workers
                .iter_mut()
                .zip(&mut self.sums)
                // No thread without a chunk.
                .take(chunks.len())
                .enumerate()
                .map(|(index, (worker, sum))| {
                    let mut shard = opened.shard(sum).expect("a worker's sum has the parameters' length");
                    let share = chunks.iter().skip(index).step_by(threads).copied();
                    scope.spawn(move || {
                        let leave = turn.map(Leave);
                        worker.add(split, share, layout, at, turn, &mut shard)?;
                        std::mem::forget(leave);
                        Ok(shard)
                    })
                })
                .collect();
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

    fn count(&self) -> usize {
        self.workers.len()
    }
}

/// Takes the memory of the mixed gradients, a row, and the parts of its gradient.
type Reader<'a> = dyn FnMut(&mut [f32], usize, &[&[f32]]) + 'a;

/// One thread's session and buffers. The memory of its shard is beside it, for the step borrows that.
struct Worker {
    session: Box<dyn Session>,
    parts: Parts,
    batch: Batch,
    /// Each row's gradient as mixed so far, `[rows, D]`; empty while steps have one point and one view.
    mixed: Vec<f32>,
    vectors: Arch,
}

impl Worker {
    /// Adds the samples of `chunks` to `shard`, taking gradients where `at` says and mixing them per sample. A witness is shown a
    /// chunk's when it is its turn.
    fn add<'c, M: Mechanism, C: Clip, K: Counts>(
        &mut self,
        split: &Split,
        chunks: impl Iterator<Item = Chunk<'c>>,
        layout: &Layout,
        at: GradsAt<'_>,
        turn: Option<&OrderedLock<&mut dyn GradientObserver>>,
        shard: &mut Shard<'_, M, C, K>,
    ) -> Result<(), BackendError> {
        let vectors = self.vectors;
        for chunk in chunks {
            self.fill(split, chunk)?;
            if let Some(views) = &at.views {
                views.apply(&mut self.batch, split, chunk, 0);
            }
            let views = at.views.map_or(1, |views| views.count());
            match at.points {
                // One gradient as it is: nothing to mix.
                [point] if point.weight == 1.0 && views == 1 && turn.is_none() && !mutant::is(Mutant::ClipOfSum) => {
                    self.each_row(split, chunk, layout, point, &mut |_, _, parts| {
                        vectors.dispatch(Add { parts, shard });
                    })?;
                }
                points if mutant::is(Mutant::MixAfterClip) => {
                    for point in points {
                        self.each_row(split, chunk, layout, point, &mut |_, _, parts| {
                            vectors.dispatch(Add { parts, shard });
                        })?;
                    }
                }
                points => {
                    let dim = layout.dim();
                    self.mixed.resize(chunk.samples.len() * dim, 0.0);
                    for view in 0..views {
                        if let Some(views) = at.views.filter(|_| view > 0) {
                            self.fill(split, chunk)?;
                            views.apply(&mut self.batch, split, chunk, view);
                        }
                        for (index, point) in points.iter().enumerate() {
                            let (index, weight) = (view as usize * points.len() + index, point.weight / views as f32);
                            self.each_row(split, chunk, layout, point, &mut |mixed, row, parts| {
                                mix(index, weight, parts, &mut mixed[row * dim..][..dim]);
                            })?;
                        }
                    }
                    let rows = chunk.samples.iter().zip(self.mixed.chunks(dim));
                    let mixed = rows.filter(|(sample, _)| !split.is_null(**sample as usize));
                    if let Some(turn) = turn {
                        let show = mixed.clone();
                        turn.take(chunk.index, |grad_observer| {
                            show.for_each(|(sample, mixed)| grad_observer.sample(*sample, mixed))
                        });
                    }
                    if mutant::is(Mutant::ClipOfSum) {
                        let mut sum = vec![0.0; dim];
                        mixed.for_each(|(_, mixed)| sum.iter_mut().zip(mixed).for_each(|(sum, x)| *sum += x));
                        vectors.dispatch(Add { parts: &[&sum], shard });
                        continue;
                    }
                    for (_, mixed) in mixed {
                        vectors.dispatch(Add { parts: &[mixed], shard });
                    }
                }
            }
        }
        Ok(())
    }

    fn fill(&mut self, split: &Split, chunk: Chunk<'_>) -> Result<(), BackendError> {
        self.batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))
    }

    /// Hands each of a chunk's gradients at `point` to `reader`, by its row and in consecutive parts, with the memory of
    /// the mixed ones. The rows after the chunk's samples are padding, and a null sample contributes nothing.
    fn each_row(
        &mut self,
        split: &Split,
        chunk: Chunk<'_>,
        layout: &Layout,
        point: &Point,
        reader: &mut Reader<'_>,
    ) -> Result<(), BackendError> {
        let Self { session, parts, batch, mixed, .. } = self;
        let inputs: Vec<_> = batch.inputs().chain(layout.split(&point.params).map(TensorRef::F32)).collect();
        session.run(&inputs, &mut |outputs| {
            for (row, sample) in chunk.samples.iter().enumerate() {
                if !split.is_null(*sample as usize) || mutant::is(Mutant::NullCounted) {
                    reader(mixed, row, &parts.of_row(outputs, row));
                }
            }
            if mutant::is(Mutant::PaddingCounted) && chunk.samples.len() < batch.rows() && mixed.is_empty() {
                reader(mixed, chunk.samples.len(), &parts.of_row(outputs, chunk.samples.len()));
            }
        })
    }
}

/// One sample's gradient on its way into a shard. Wider vectors change no bits: nothing is fused or reordered.
struct Add<'a, 's, M: Mechanism, C, K> {
    parts: &'a [&'a [f32]],
    shard: &'a mut Shard<'s, M, C, K>,
}

impl<M: Mechanism, C: Clip, K: Counts> WithSimd for Add<'_, '_, M, C, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.shard.add_combined(self.parts).expect(SHAPES);
    }
}
