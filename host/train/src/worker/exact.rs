//! Each sample's own gradient and loss, **not private**: neither clipped nor summed, and without noise.
//!
//! The gradients come from the sessions that training loads, so they have its bits. The losses are of sessions of their own.

use super::ordered_lock::{OrderedLock, share_chunks};
use super::parts::{OUTPUTS, Parts};
use super::{Layout, load};
use damper_data::{Batch, Chunk, Split};
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_runtime::{Backend, BackendError, Session};
use std::num::NonZeroUsize;

/// The output that holds the samples' losses.
const LOSS: &str = "dp.loss";

/// The workers.
pub(crate) struct ExactGradients {
    workers: Vec<Worker>,
    layout: Layout,
}

struct Worker {
    gradients: Box<dyn Session>,
    losses: Box<dyn Session>,
    parts: Parts,
    batch: Batch,
    rows: Rows,
}

/// The gradients and losses of a chunk's samples, without the padding.
#[derive(Default)]
pub(crate) struct Rows {
    /// One `[rows, *shape]` a parameter. Zeros for a null sample.
    pub(crate) grads: Vec<Vec<f32>>,
    /// `[rows]`. NaN for a null sample.
    pub(crate) losses: Vec<f32>,
}

impl ExactGradients {
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
            Ok(Worker {
                gradients: load(backend, grad, &OUTPUTS, rows)?,
                losses: load(backend, grad, &[LOSS], rows)?,
                parts: Parts::new(backend, grad),
                batch: Batch::new(split, rows),
                rows: Rows { grads: vec![vec![]; layout.lengths().len()], losses: vec![] },
            })
        };
        let workers = (0..threads).map(worker).collect::<Result<_, BackendError>>()?;
        Ok(Self { workers, layout })
    }

    /// Hands the samples of each of `chunks` at `params` to `take`, in the order of the chunks. The first error ends it.
    pub(crate) fn each_chunk<E: From<BackendError> + Send>(
        &mut self,
        split: &Split,
        chunks: &[Chunk<'_>],
        params: &[f32],
        take: &mut (dyn FnMut(&Rows) -> Result<(), E> + Send),
    ) -> Result<(), E> {
        let Self { workers, layout } = self;
        let turn = OrderedLock::new(take);
        share_chunks(workers, chunks, &turn, |worker, chunk| {
            worker.compute(split, chunk, layout, params)?;
            turn.take(chunk.index, |take| take(&worker.rows)).unwrap_or(Ok(()))
        })
    }
}

impl Worker {
    /// Fills `rows` with those of a chunk's samples.
    fn compute(
        &mut self,
        split: &Split,
        chunk: Chunk<'_>,
        layout: &Layout,
        params: &[f32],
    ) -> Result<(), BackendError> {
        let Self { gradients, losses, parts, batch, rows: Rows { grads, losses: of_rows } } = self;
        batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
        let inputs: Vec<_> = batch.inputs().chain(layout.split(params).map(TensorRef::F32)).collect();
        let is_null = |row: usize| split.is_null(chunk.samples[row] as usize);
        grads.iter_mut().for_each(Vec::clear);
        gradients.run(&inputs, &mut |outputs| {
            for row in 0..chunk.samples.len() {
                for (grads, part) in grads.iter_mut().zip(parts.of_row(outputs, row)) {
                    if is_null(row) {
                        grads.resize(grads.len() + part.len(), 0.0);
                    } else {
                        grads.extend_from_slice(part);
                    }
                }
            }
        })?;
        losses.run(&inputs, &mut |outputs| {
            of_rows.clear();
            let losses = outputs[0].iter().take(chunk.samples.len()).enumerate();
            of_rows.extend(losses.map(|(row, loss)| if is_null(row) { f32::NAN } else { *loss }));
        })
    }
}
