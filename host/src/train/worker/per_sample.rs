//! Each sample's gradient, mixed here and clipped by the core: integer sums make the result independent of the split.

use super::{GRADIENTS, Gather, Layout, Opened, Point, SHAPES, load};
use crate::autodiff::GradGraph;
use crate::backend::{Backend, BackendError, Input, Session};
use crate::data::{Batch, Chunk, Split};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::filter::mix;
use damper_core::private::Mechanism;
use damper_core::step::Shard;
use std::num::NonZeroUsize;

/// The workers, and the memory of their sums.
pub(in crate::train) struct PerSampleGradients<W> {
    workers: Vec<Worker>,
    sums: Vec<Vec<W>>,
    layout: Layout,
}

impl<W: Copy + Default> PerSampleGradients<W> {
    /// Loads the gradient graph for each of `threads` threads.
    pub(in crate::train) fn new(
        backend: &dyn Backend,
        grad: &GradGraph,
        split: &Split,
        rows: NonZeroUsize,
        threads: usize,
    ) -> Result<Self, BackendError> {
        let layout = Layout::new(grad);
        let worker = |_| {
            let session = load(backend, grad, GRADIENTS, rows)?;
            Ok(Worker { session, batch: Batch::new(split, rows), mixed: vec![] })
        };
        let workers = (0..threads).map(worker).collect::<Result<_, BackendError>>()?;
        Ok(Self { workers, sums: vec![vec![W::default(); layout.dim()]; threads], layout })
    }
}

impl<M: Mechanism<Word: Send> + Send + Sync> Gather<M> for PerSampleGradients<M::Word> {
    fn gather(
        &mut self,
        opened: &mut Opened<'_, M>,
        split: &Split,
        chunks: &[Chunk<'_>],
        points: &[Point],
    ) -> Result<(), BackendError> {
        let threads = self.workers.len();
        let layout = &self.layout;
        let shards = std::thread::scope(|scope| {
            let handles: Vec<_> = self
                .workers
                .iter_mut()
                .zip(&mut self.sums)
                .enumerate()
                .map(|(index, (worker, sum))| {
                    let mut shard = opened.shard(sum).expect("a worker's sum has the parameters' length");
                    let share = chunks.iter().skip(index).step_by(threads).copied();
                    scope.spawn(move || worker.add(split, share, layout, points, &mut shard).map(|()| shard))
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

/// One thread's session and buffers. The memory of its shard is beside it, for the step borrows that.
struct Worker {
    session: Box<dyn Session>,
    batch: Batch,
    /// Each row's gradient as mixed so far, `[rows, D]`; empty while steps have one point.
    mixed: Vec<f32>,
}

impl Worker {
    /// Adds the samples of `chunks` to `shard`, taking gradients at `points` and mixing them per sample.
    fn add<'c, M: Mechanism, C: Clip, K: Counts>(
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
