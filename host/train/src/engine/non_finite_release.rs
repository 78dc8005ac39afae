//! The release of the number of rows without a finite gradient. It is a step of the core with one parameter, to which
//! each such row adds 1.
//!
//! Gradient descent with a learning rate of 1 moves the parameter from 0 to minus the noisy count. The release has its
//! own ledger. Its key is derived from the run's key, because its noise has the address of a training step's noise.
//!
//! # After a crash
//!
//! The set of finite gradients may differ with the program, the backend or the processor. Two counts with the same
//! noise would reveal their difference. So the noise is drawn once.
//!
//! The rows are counted first, and a stop in that time charges nothing. Then the charge is written to disk before the
//! release. The value is in the run's state before the first step. If a charge is on disk without a value, the count is
//! lost. It stays charged and is not released again.
//!
//! # Ranks
//!
//! Each rank draws the same noise. It counts its share of the rows, or the rows that it holds. The counts are summed,
//! so that all ranks release the same value.

use crate::config::release_non_finite::{NonFiniteCount, ReleaseNonFinite};
use crate::engine::course::{Settled, Written};
use crate::engine::generator::{Derived, RunGenerator, derived};
use crate::engine::observe::{Counting, Observer};
use crate::engine::ranks::Ranks;
use crate::engine::trained::Trained;
use crate::engine::worker::Accumulate;
use crate::state::checkpoint::Checkpoint;
use crate::state::files::NON_FINITE_LEDGER;
use crate::state::store::{LedgerFile, RanksLedger};
use crate::{Progress, Run, RunEvent, TrainError};
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_data::Chunk;

/// Physical batches per thread between two checks of the stop request.
const A_TURN: usize = 4;

const LOST: &str = "`release_non_finite`: the count was charged and the process ended before it was kept, so it is lost; epsilon counts it, \
                    and it is not released again";

/// The state of the count after an earlier process.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Left {
    /// The released count.
    Value(f32),
    /// Only a charge.
    Charge,
}

impl Left {
    fn of(checkpoint: Option<&Checkpoint>, first: u32) -> Option<Self> {
        let checkpoint = checkpoint?;
        match checkpoint.non_finite() {
            Some(count) => Some(Self::Value(count)),
            None => (first > 0 || checkpoint.may_have_charged(NON_FINITE_LEDGER)).then_some(Self::Charge),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Value(count) => count.to_le_bytes().into(),
            Self::Charge => vec![0],
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [_] => Some(Self::Charge),
            bytes => Some(Self::Value(f32::from_le_bytes(bytes.try_into().ok()?))),
        }
    }
}

/// Returns the count of a run, if requested: from the saved state, or counted at the initial `params`, charged and
/// released now. It is the same on all ranks.
pub(in crate::engine) fn released<M: Trained>(
    settled: &mut Settled<'_, '_>,
    workers: &mut impl Accumulate<M>,
    params: &[f32],
) -> Result<Option<NonFiniteCount>, TrainError> {
    let Settled { run, ranks, generator, written, progress, observer, .. } = settled;
    let Some(asked) = &run.config.release_non_finite else { return Ok(None) };
    let Written { folder, plan, checkpoint, place, .. } = written;
    let count = |released| NonFiniteCount {
        released,
        noise: asked.noise_multiplier.unwrap_or_default(),
        rows: run.config.dataset_size.unwrap_or(run.data.train.len() as u64),
    };
    let left = ranks.of_rank_0(Ok(Left::of(checkpoint.as_deref(), place.first)), Left::bytes, Left::of_bytes)?;
    match left {
        Some(Left::Value(released)) => return Ok(Some(count(Some(released)))),
        Some(Left::Charge) => {
            progress.on_event(RunEvent::Warned(LOST));
            return Ok(Some(count(None)));
        }
        None => {}
    }
    let own = counted(run, ranks, workers, params, *progress)?;
    let file = folder.map(|folder| LedgerFile::of_plan(folder.join(NON_FINITE_LEDGER), plan.digest(), 0));
    let mut ledger = Ledger::resume(ranks.ledger(file), 1, 0);
    let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
    let released = release(asked, own, ranks, &mut ledger, &derived(generator, Derived::NonFinite), observer)?;
    ranks.agree(checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.keep_non_finite(released)))?;
    let count = count(Some(released));
    progress.on_event(RunEvent::Counted(count));
    Ok(Some(count))
}

/// Returns the number of rows in this rank's share without a finite gradient at `params`.
fn counted<M: Trained>(
    run: &Run,
    ranks: &Ranks<'_>,
    workers: &mut impl Accumulate<M>,
    params: &[f32],
    progress: &mut dyn Progress,
) -> Result<u64, TrainError> {
    let split = &run.data.train;
    let (rows, (first, every)) = ranks.share(split);
    let rows: Vec<u32> = rows.filter(|row| !split.is_null(*row)).map(|row| row as u32).collect();
    // Ranks may have different numbers of threads, so they share physical batches.
    let own: Vec<&[u32]> = rows.chunks(run.model.physical_batch.get()).skip(first).step_by(every).collect();
    let mut turns = own.chunks(workers.threads().max(1) * A_TURN);
    let mut count = 0;
    loop {
        let chunks = turns.next().unwrap_or_default().iter().enumerate();
        let chunks: Vec<Chunk<'_>> = chunks.map(|(index, samples)| Chunk { index, samples }).collect();
        let found = workers.count_non_finite(split, &chunks, params);
        count += ranks.agree(found)?;
        let [is_stop, is_more] = ranks.any([progress.stop(), turns.len() > 0])?;
        if is_stop {
            return Err(TrainError::Stopped);
        }
        if !is_more {
            return Ok(count);
        }
    }
}

/// Charges the release to `ledger`, and releases. This rank adds its `own` rows.
fn release(
    asked: &ReleaseNonFinite,
    own: u64,
    ranks: &Ranks<'_>,
    ledger: &mut Ledger<RanksLedger<'_>>,
    generator: &RunGenerator,
    mut observer: Option<&mut dyn Observer>,
) -> Result<f32, TrainError> {
    const LENGTH: &str = "the sum has one word";
    let mechanism =
        asked.mechanism()?.ok_or_else(|| TrainError::Run("the noise of `release_non_finite` is open".into()))?;
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch: 1,
    })?;
    let mut state = StepState::new(vec![SumWord::<i64>::ZERO; 1], (), SgdState { momentum: [0.0f32; 0] }, ());
    let mut open = step.open(&mut state, ledger)?;
    for _ in 0..own {
        open.add_combined(&[&[1.0]]).expect(LENGTH);
    }
    ranks.total_sum(&mut open)?;
    if let Some(observer) = &mut observer {
        observer.counting(Counting::Charged);
    }
    let mut params = [0.0];
    open.finish(&mut params, generator).expect(LENGTH);
    let [released] = params.map(|x: f32| -x);
    if let Some(observer) = observer {
        observer.counting(Counting::Released(released));
    }
    Ok(released)
}
