//! Gradient and loss of each sample, **not private**: without clipping, summing and noise.
//!
//! The gradients come from the sessions that training loads, so they are bit-identical. The losses come from separate
//! sessions.

use super::ordered_lock::{OrderedLock, share_chunks};
use super::reader::Reader;
use super::{ParamLayout, Sessions};
use damper_data::{Chunk, Split};
use damper_runtime::{BackendError, Inputs, KeptInputs, Session};

/// The output with the samples' losses.
const LOSS: &str = "dp.loss";

/// Workers that compute exact gradients and losses.
pub struct ExactGradients {
    workers: Vec<Worker>,
    layout: ParamLayout,
}

struct Worker {
    gradients: Reader,
    losses: Option<Box<dyn Session>>,
    rows: ChunkRows,
}

/// The gradients and losses of a chunk's samples, without the padding.
#[derive(Default)]
pub struct ChunkRows {
    /// One `[rows, *shape]` per parameter. Zeros for a null sample.
    pub grads: Vec<Vec<f32>>,
    /// `[rows]`. NaN for a null sample. Empty if no losses are computed.
    pub losses: Vec<f32>,
}

impl ExactGradients {
    /// Loads the graphs of gradients and losses for each thread.
    pub fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        Self::load(sessions, true)
    }

    /// Loads only the gradient graph for each thread.
    pub fn without_losses(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        Self::load(sessions, false)
    }

    fn load(sessions: &Sessions<'_>, with_losses: bool) -> Result<Self, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let workers = sessions.each(|sessions| {
            let rows = ChunkRows { grads: vec![vec![]; layout.lengths().len()], losses: vec![] };
            let losses = with_losses.then(|| sessions.load(&[LOSS])).transpose()?;
            Ok(Worker { gradients: Reader::new(sessions)?, losses, rows })
        })?;
        Ok(Self { workers, layout })
    }

    /// Computes the samples of each of `chunks` at `params`, and passes them to `take` in chunk order. Stops at the
    /// first error.
    pub fn each_chunk<E: From<BackendError> + Send>(
        &mut self,
        split: &Split,
        chunks: &[Chunk<'_>],
        params: &[f32],
        take: &mut (dyn FnMut(&ChunkRows) -> Result<(), E> + Send),
    ) -> Result<(), E> {
        let Self { workers, layout } = self;
        let params = layout.kept(params);
        let turn = OrderedLock::new(take);
        share_chunks(workers, chunks, &turn, |worker, chunk| {
            worker.compute(split, chunk, &params)?;
            turn.take(chunk.index, |take| take(&worker.rows)).unwrap_or(Ok(()))
        })
    }
}

impl Worker {
    /// Fills `rows` with the values of a chunk's samples.
    fn compute(&mut self, split: &Split, chunk: Chunk<'_>, params: &KeptInputs<'_>) -> Result<(), BackendError> {
        let Self { gradients, losses, rows: ChunkRows { grads, losses: of_rows } } = self;
        gradients.fill(split, chunk)?;
        let is_null = |row: usize| split.is_null(chunk.samples[row] as usize);
        grads.iter_mut().for_each(Vec::clear);
        gradients.each_row(0..chunk.samples.len(), params, &mut |row, parts| {
            for (grads, part) in grads.iter_mut().zip(parts) {
                if is_null(row) {
                    grads.resize(grads.len() + part.len(), 0.0);
                } else {
                    grads.extend_from_slice(part);
                }
            }
        })?;
        let Some(losses) = losses else { return Ok(()) };
        let before: Vec<_> = gradients.batch.inputs().collect();
        losses.run_kept(Inputs { before: &before, kept: params, after: &[] }, &mut |outputs| {
            of_rows.clear();
            let losses = outputs[0].iter().take(chunk.samples.len()).enumerate();
            of_rows.extend(losses.map(|(row, loss)| if is_null(row) { f32::NAN } else { *loss }));
        })
    }
}
