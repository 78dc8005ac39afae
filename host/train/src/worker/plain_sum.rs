//! The plain sum of a draw's gradients, **not private**: neither clipped nor with noise.
//!
//! It has the order of the chunks, whoever made their sums, so the result does not depend on the number of workers. A sample whose gradient
//! is not finite adds nothing, as in a private step.

use super::ordered_lock::{OrderedLock, share_chunks};
use super::parts::{OUTPUTS, Parts};
use super::{Layout, Views, load};
use damper_data::{Batch, Chunk, Split};
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_runtime::{Backend, BackendError, Session};
use std::num::NonZeroUsize;

/// The workers.
pub(crate) struct PlainSums {
    workers: Vec<Worker>,
    layout: Layout,
}

struct Worker {
    session: Box<dyn Session>,
    parts: Parts,
    batch: Batch,
    /// A chunk's sum, `[D]`.
    sum: Vec<f64>,
}

impl PlainSums {
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
            let sum = vec![0.0; layout.dim()];
            Ok(Worker { session, parts: Parts::new(backend, grad), batch: Batch::new(split, rows), sum })
        };
        let workers = (0..threads).map(worker).collect::<Result<_, BackendError>>()?;
        Ok(Self { workers, layout })
    }

    /// Number of threads.
    pub(crate) fn count(&self) -> usize {
        self.workers.len()
    }

    /// Writes the sum over the samples of `chunks` at `params`, each the mean over its views, to `sum`, `[D]`.
    pub(crate) fn sum(
        &mut self,
        split: &Split,
        chunks: &[Chunk<'_>],
        views: Option<Views<'_>>,
        params: &[f32],
        sum: &mut [f64],
    ) -> Result<(), BackendError> {
        sum.fill(0.0);
        let Self { workers, layout } = self;
        let turn = OrderedLock::new(sum);
        share_chunks(workers, chunks, &turn, |worker, chunk| {
            worker.sum.fill(0.0);
            for view in 0..views.map_or(1, |views| views.count()) {
                worker.batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
                if let Some(views) = views {
                    views.apply(&mut worker.batch, split, chunk, view);
                }
                worker.add(split, chunk, layout, params)?;
            }
            if let Some(views) = views {
                worker.sum.iter_mut().for_each(|x| *x /= f64::from(views.count()));
            }
            turn.take(chunk.index, |sum| add(sum, &worker.sum));
            Ok(())
        })
    }
}

impl Worker {
    /// Adds the gradients of a chunk to its sum. The rows after its samples are padding, and a null sample adds nothing.
    fn add(&mut self, split: &Split, chunk: Chunk<'_>, layout: &Layout, params: &[f32]) -> Result<(), BackendError> {
        let Self { session, parts, batch, sum } = self;
        let inputs: Vec<_> = batch.inputs().chain(layout.split(params).map(TensorRef::F32)).collect();
        session.run(&inputs, &mut |outputs| {
            for (row, sample) in chunk.samples.iter().enumerate() {
                let grad = parts.of_row(outputs, row);
                if !split.is_null(*sample as usize) && grad.iter().all(|part| part.iter().all(|x| x.is_finite())) {
                    let grad = grad.iter().flat_map(|part| part.iter());
                    sum.iter_mut().zip(grad).for_each(|(sum, x)| *sum += f64::from(*x));
                }
            }
        })
    }
}

fn add(sum: &mut [f64], other: &[f64]) {
    sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
}
