//! Clipped sums that the backend accumulates on its device over the chunks of a step. The core reads them once per
//! step.
//!
//! One session runs the chunks in order, so the sum does not depend on the number of workers. While a chunk runs, the
//! next is read.

use super::read_ahead::read_ahead;
use super::{SUMS, Sessions, fill, plan};
use damper_core::clip::Clip;
use damper_core::count::Counts;
use damper_core::error::CallError;
use damper_core::noise::ContinuousGaussian;
use damper_core::step::{FloatSum, Shard};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{BackendError, ChunkPlace, Inputs, KeptInputs, SummingSession};

/// The session, with the current and the next physical batch.
pub(super) struct DeviceSum {
    session: Box<dyn SummingSession>,
    batches: [Batch; 2],
    norms: Vec<f32>,
}

impl DeviceSum {
    /// Loads the graph of clipped sums. Returns `None` if the backend does not keep sums.
    pub(super) fn new(sessions: &Sessions<'_>) -> Result<Option<Self>, BackendError> {
        let (model, mut plan) = plan(sessions.grad, &SUMS, sessions.rows);
        plan.threads = sessions.threads;
        // The norms precede the sums.
        let Some(session) = sessions.backend.load_summing(&model, &plan, 1)? else { return Ok(None) };
        Ok(Some(Self { session, batches: [sessions.batch()?, sessions.batch()?], norms: vec![] }))
    }

    /// Returns the number of samples in `chunk` without a finite norm.
    pub(super) fn count_non_finite(
        &mut self,
        split: &Split,
        chunk: Chunk<'_>,
        kept: &KeptInputs<'_>,
    ) -> Result<u64, BackendError> {
        let Self { session, batches: [batch, _], .. } = self;
        fill(batch, split, chunk)?;
        let before: Vec<TensorRef<'_>> = batch.inputs().collect();
        let inputs = Inputs { before: &before, kept, after: &[TensorRef::F32(batch.weights())] };
        let mut count = 0;
        session.add(inputs, ChunkPlace { is_first: true, is_last: true }, &mut |outputs| {
            count = counted(outputs[0], batch).filter(|norm| !norm.is_finite()).count() as u64;
        })?;
        Ok(count)
    }

    /// Adds the clipped sum of all `chunks`.
    pub(super) fn add<C: Clip, K: Counts>(
        &mut self,
        split: &Split,
        chunks: &[Chunk<'_>],
        kept: &KeptInputs<'_>,
        bound: f32,
        shard: &mut Shard<'_, ContinuousGaussian, C, K>,
    ) -> Result<(), BackendError> {
        let Self { session, batches, norms } = self;
        norms.clear();
        let mut added = Ok(());
        read_ahead(batches, chunks, &|batch, chunk| fill(batch, split, chunk), &mut |batch, place| {
            let before: Vec<TensorRef<'_>> = batch.inputs().collect();
            let inputs = Inputs { before: &before, kept, after: &[TensorRef::F32(batch.weights())] };
            session.add(inputs, place, &mut |outputs| {
                let (all_norms, parts) = outputs.split_first().expect("dp.norm is read");
                norms.extend(counted(all_norms, batch));
                if place.is_last {
                    added = shard.add_float_sum(FloatSum { parts, bound, norms });
                }
            })
        })?;
        added.map_err(unclipped)
    }
}

/// Returns the norms of the rows that are counted.
pub(super) fn counted(norms: &[f32], batch: &Batch) -> impl Iterator<Item = f32> {
    norms.iter().zip(batch.weights()).filter(|(_, weight)| **weight != 0.0).map(|(norm, _)| *norm)
}

/// Returns the error for a sum that the core rejected.
pub(super) fn unclipped(error: CallError) -> BackendError {
    BackendError(format!("the backend's clipped sum: {error}; use `readout` per-sample"))
}
