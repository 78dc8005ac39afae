//! A session of single gradients with its physical batch: what all workers share that see a sample's.

use super::parts::{OUTPUTS, Parts};
use super::{Sessions, fill};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{BackendError, Inputs, Kept, Session};

/// One thread's.
pub(super) struct Reader {
    session: Box<dyn Session>,
    parts: Parts,
    pub(super) batch: Batch,
}

impl Reader {
    pub(super) fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        Ok(Self {
            session: sessions.load(&OUTPUTS)?,
            parts: Parts::new(sessions.backend, sessions.grad),
            batch: sessions.batch(),
        })
    }

    /// Fills the batch with the samples of `chunk`.
    pub(super) fn fill(&mut self, split: &Split, chunk: Chunk<'_>) -> Result<(), BackendError> {
        fill(&mut self.batch, split, chunk)
    }

    /// Runs at `params`, and hands the gradient of each of `rows` to `take`, in consecutive parts.
    pub(super) fn each_row(
        &mut self,
        rows: impl Iterator<Item = usize>,
        params: &Kept<'_>,
        take: &mut dyn FnMut(usize, &[&[f32]]),
    ) -> Result<(), BackendError> {
        let Self { session, parts, batch } = self;
        let mut rows = Some(rows);
        let before: Vec<TensorRef<'_>> = batch.inputs().collect();
        session.run_kept(Inputs { before: &before, kept: params, after: &[] }, &mut |outputs| {
            for row in rows.take().into_iter().flatten() {
                take(row, &parts.of_row(outputs, row));
            }
        })
    }
}
