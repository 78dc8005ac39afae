//! A session that computes per-sample gradients, with its physical batch. All workers that see single gradients share
//! this code.

use super::parts::{OUTPUTS, Parts};
use super::{Sessions, fill};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{BackendError, Inputs, KeptInputs, Session};

/// A sample's gradient in consecutive segments.
type InParts<'a> = &'a [&'a [f32]];

/// The reader of one thread.
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
            batch: sessions.batch()?,
        })
    }

    /// Fills the batch with the samples of `chunk`.
    pub(super) fn fill(&mut self, split: &Split, chunk: Chunk<'_>) -> Result<(), BackendError> {
        fill(&mut self.batch, split, chunk)
    }

    /// Runs at `params`, and calls `take` with the gradient of each of `rows`, in consecutive segments.
    pub(super) fn each_row(
        &mut self,
        mut rows: impl Iterator<Item = usize>,
        params: &KeptInputs<'_>,
        take: &mut dyn FnMut(usize, &[&[f32]]),
    ) -> Result<(), BackendError> {
        self.run(params, &mut |outputs, parts| {
            for row in rows.by_ref() {
                take(row, &parts.of_rows(outputs, &[row])[0]);
            }
        })
    }

    /// Runs at `params`, and calls `take` with the gradients of `rows`, several rows at a time, each in consecutive
    /// segments.
    pub(super) fn each_group(
        &mut self,
        rows: impl Iterator<Item = usize>,
        params: &KeptInputs<'_>,
        take: &mut dyn FnMut(&[InParts<'_>]),
    ) -> Result<(), BackendError> {
        let rows: Vec<usize> = rows.collect();
        self.run(params, &mut |outputs, parts| {
            for rows in rows.chunks(parts.abreast()) {
                let samples = parts.of_rows(outputs, rows);
                take(&samples.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        })
    }

    fn run(
        &mut self,
        params: &KeptInputs<'_>,
        read: &mut dyn FnMut(&[&[f32]], &mut Parts),
    ) -> Result<(), BackendError> {
        let Self { session, parts, batch } = self;
        let before: Vec<TensorRef<'_>> = batch.inputs().collect();
        session.run_kept(Inputs { before: &before, kept: params, after: &[] }, &mut |outputs| read(outputs, parts))
    }
}
