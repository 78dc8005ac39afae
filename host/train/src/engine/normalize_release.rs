//! The release of the features' means and deviations, as one step of the core over all training rows.
//!
//! Gradient descent with a learning rate of 1 moves `2d` parameters from 0, with row i's vector as its gradient. They
//! end at minus the noisy means. The release has its own ledger. Its key is derived from the run's key, because its
//! noise has the address of a training step's noise.
//!
//! # After a crash
//!
//! The charge is on disk before the release, and the constants are in the run's state before anything uses them. After
//! a crash between the two, they are computed again with the same key from the same rows, in integers. The result is
//! the same release.
//!
//! # Ranks
//!
//! Each rank draws the same noise. It adds the rows that it holds, and the sums of shards are added, so that all ranks
//! release the same sum.

use crate::config::normalize_private::NormalizePrivate;
use crate::engine::generator::{Derived, RunGenerator, derived};
use crate::engine::observe::{Normalizing, Observer};
use crate::engine::ranks::Ranks;
use crate::state::checkpoint::Checkpoint;
use crate::state::files::NORMALIZE_LEDGER;
use crate::state::store::{LedgerFile, RanksLedger};
use crate::{Run, TrainError};
use damper_budget::RunPlan;
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_data::{Batch, Chunk, Normalize};
use damper_onnx::TensorRef;
use std::num::NonZeroUsize;
use std::path::Path;

/// The largest divisor in a step of the core.
const LARGEST: u64 = 1 << 24;
const LENGTH: &str = "a row has as many values as the sum has columns";

/// Returns the constants of `run`, if requested: from the saved state, or charged and released now. They are the same
/// on all ranks.
pub(crate) fn constants(
    run: &Run,
    ranks: &Ranks<'_>,
    folder: Option<&Path>,
    checkpoint: Option<&mut Checkpoint>,
    plan: &RunPlan,
    generator: &RunGenerator,
    observer: Option<&mut dyn Observer>,
) -> Result<Option<Normalize>, TrainError> {
    let Some(normalize) = &run.config.normalize_private else { return Ok(None) };
    let kept = checkpoint.as_ref().and_then(|checkpoint| checkpoint.normalize());
    let of = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    if let Some(kept) = ranks.of_rank_0(Ok(kept), |kept| kept.to_string().into_bytes(), of)? {
        return Ok(Some(kept));
    }
    ranks.agree(folder.map_or(Ok(()), |folder| plan.write(folder)))?;
    let file = folder.map(|folder| LedgerFile::of_plan(folder.join(NORMALIZE_LEDGER), plan.digest(), 0));
    let mut ledger = Ledger::resume(ranks.ledger(file), 1, 0);
    let released = release(run, normalize, ranks, &mut ledger, &derived(generator, Derived::Normalize), observer)?;
    ranks.agree(checkpoint.map_or(Ok(()), |checkpoint| checkpoint.keep_normalize(&released)))?;
    Ok(Some(released))
}

/// Returns `run` with features that these constants scale when a batch is filled. It shares the rows.
pub(crate) fn normalized(run: &Run, constants: Normalize) -> Run {
    Run { normalize: Some(constants), ..run.clone() }
}

/// Charges the release to `ledger`, and releases.
fn release(
    run: &Run,
    normalize: &NormalizePrivate,
    ranks: &Ranks<'_>,
    ledger: &mut Ledger<RanksLedger<'_>>,
    generator: &RunGenerator,
    mut observer: Option<&mut dyn Observer>,
) -> Result<Normalize, TrainError> {
    let split = &run.data.train;
    let (input, columns) = normalize.input(split)?;
    let rows = run.config.dataset_size.unwrap_or(split.len() as u64);
    let divisor = rows.clamp(1, LARGEST);
    let mechanism =
        normalize.mechanism()?.ok_or_else(|| TrainError::Run("the noise of `normalize_private` is open".into()))?;
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(NormalizePrivate::clip(columns)),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch: divisor as u32,
    })?;
    let mut state = StepState::new(vec![SumWord::<i64>::ZERO; 2 * columns], (), SgdState { momentum: [0.0f32; 0] }, ());
    let mut open = step.open(&mut state, ledger)?;
    let mut batch = Batch::new(split, NonZeroUsize::MIN);
    let (mut first, mut second) = (vec![0.0; columns], vec![0.0; columns]);
    let mut wide = vec![0.0; columns];
    let own = split.rows_held();
    let added = own.into_iter().try_for_each(|row| -> Result<(), TrainError> {
        batch.fill(split, Chunk { index: 0, samples: &[row as u32] })?;
        if let (TensorRef::F32(values), [1.0]) = (batch.features(input), batch.weights()) {
            if !split.unrounded(input, row, &mut wide)? {
                wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = f64::from(*value));
            }
            normalize.added(&wide, &mut first, &mut second);
            open.add_combined(&[&first, &second]).expect(LENGTH);
        }
        Ok(())
    });
    ranks.agree(added)?;
    if run.is_sharded() {
        ranks.total_sum(&mut open)?;
    }
    if let Some(observer) = &mut observer {
        observer.normalizing(Normalizing::Charged);
    }
    let mut params = vec![0.0; 2 * columns];
    open.finish(&mut params, generator).expect(LENGTH);
    let means: Vec<f64> = params.iter().map(|x| -f64::from(*x) * divisor as f64 / rows as f64).collect();
    if let Some(observer) = observer {
        observer.normalizing(Normalizing::Released { means: &means, rows });
    }
    let (first, second) = means.split_at(columns);
    Ok(normalize.constants(first, second, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::worker::new_batch;
    use crate::{Budget, InputFiles, Method, TrainConfig, prepare};
    use std::sync::Arc;

    fn digits() -> Run {
        let source = InputFiles::digits("digits-linear.onnx");
        let config = TrainConfig::new(Budget::NoiseMultiplier(1.0), 1e-5, 64, 1.0, Method::dp_sgd(1.0, 0.3));
        prepare(&source, config).unwrap()
    }

    // Values are scaled when a batch is filled. The rows stay those of the original run, at the same address.
    #[test]
    fn normalized_run_shares_rows() {
        let run = digits();
        let scaled = normalized(&run, (0.5, 0.25).into());
        assert!(Arc::ptr_eq(&run.data, &scaled.data) && Arc::ptr_eq(&run.model, &scaled.model));
        let floats = |run: &Run| run.data.train.features()[0].floats().as_ptr();
        assert_eq!(floats(&run), floats(&scaled));
        let filled = |run: &Run| {
            let split = &run.data.train;
            let mut batch = new_batch(split, NonZeroUsize::MIN, run.normalize.as_ref()).unwrap();
            batch.fill(split, Chunk { index: 0, samples: &[7] }).unwrap();
            let TensorRef::F32(values) = batch.features(0) else { panic!("the input is of floats") };
            values.to_vec()
        };
        assert!(filled(&run).iter().any(|x| *x > 0.0));
        let expected: Vec<f32> = filled(&run).iter().map(|x| (x - 0.5) / 0.25).collect();
        assert_eq!(filled(&scaled), expected);
    }
}
