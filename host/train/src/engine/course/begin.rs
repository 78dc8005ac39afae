//! Setup before the first step.

use super::device::{self, OpenDevice};
use super::frozen;
use super::settled::{Settled, Written};
use crate::engine::dry_run::{check_evaluation, check_result, of_gradients, rehearse_on};
use crate::engine::generator;
use crate::engine::host_nodes;
use crate::engine::normalize_release::{constants, normalized};
use crate::engine::not_private;
use crate::engine::observe::Observer;
use crate::engine::ranks::group::{Alone, Group, RankError};
use crate::engine::ranks::{self, Ranks};
use crate::engine::rehearsal::{Independence, Rehearsed, self_test};
use crate::engine::step_loop;
use crate::engine::worker::{DeviceSession, OUTPUTS};
use crate::plan::held_out::steps_between;
use crate::state::checkpoint::{Checkpoint, Environment, Place};
use crate::state::recording::{Beginning, Begun, Origin, Recording};
use crate::state::store::{LedgerFile, RESERVE, RanksLedger};
use crate::{Outcome, Progress, Run, RunEvent, TrainError};
use damper_budget::{RunPlan, evaluations_until};
use damper_core::accounting::Ledger;
use damper_onnx::SettingError;
use damper_runtime::{Backend, open};
use std::path::Path;
use zeroize::Zeroizing;

/// Warning of a network whose synthetic samples have no finite gradient.
const NONE_IS_FINITE: &str = "no made-up sample has a finite gradient at the model's initial weights, so steps may be noise alone; look for \
                              infinities in frozen weights, and for logarithms, roots and divisions in the model";

/// Trains. `folder` is an existing private folder, which receives the plan and the ledger. The plan is written before
/// the first step is charged, and the ledger before the first release of each charge. A stopped run cannot resume.
///
/// # Errors
///
/// The backend is absent or fails, the ledger or the recording cannot be written, or the operating system gives no key.
pub fn run(run: &Run, folder: &Path, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
    observed(run, &Alone, Some(folder), None, progress, None)
}

/// Does the same as [`run`], and saves the state in `checkpoint`. It resumes from that state after a stop. The private
/// folder is that of the checkpoint.
///
/// # Errors
///
/// As for [`run`], or the state cannot be written or is damaged.
pub fn run_resumable(
    run: &Run,
    checkpoint: &mut Checkpoint,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let folder = checkpoint.folder().to_path_buf();
    run_on(run, &Alone, Some(&folder), Some(checkpoint), progress)
}

/// Does the same as [`run`] or [`run_resumable`] on the ranks of `group`, bit-identically to a single process. Rank 0
/// passes its private `folder`, and the `checkpoint` in it if the run has a checkpoint. The other ranks pass neither,
/// and end with the same parameters. All ranks must have prepared the same run. A rank may hold only a shard of the
/// data ([`Run::keep_shard`]).
///
/// A rank releases a step after rank 0 has written its charge. An error on one rank is an error on all ranks.
///
/// # Errors
///
/// As for [`run`], on any rank. A rank's run, program, backend or processor differs from that of rank 0. A rank has
/// left. The run cannot use several ranks.
pub fn run_on(
    run: &Run,
    group: &dyn Group,
    folder: Option<&Path>,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    observed(run, group, folder, checkpoint, progress, None)
}

/// Does the same as [`run`], with an observer of its internal state.
pub fn observed(
    run: &Run,
    group: &dyn Group,
    folder: Option<&Path>,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
    observer: Option<&mut dyn Observer>,
) -> Result<Outcome, TrainError> {
    let files = Files { folder, checkpoint };
    begin(run, group, files, progress, observer, &device::open)
}

/// The files of a run.
pub(super) struct Files<'a> {
    /// The private folder.
    pub(super) folder: Option<&'a Path>,
    /// The saved state, if it is kept.
    pub(super) checkpoint: Option<&'a mut Checkpoint>,
}

/// Does the same as [`observed`], on the device that `device` opens.
pub(super) fn begin(
    run: &Run,
    group: &dyn Group,
    Files { folder, mut checkpoint }: Files<'_>,
    progress: &mut dyn Progress,
    mut observer: Option<&mut dyn Observer>,
    device: OpenDevice<'_>,
) -> Result<Outcome, TrainError> {
    ranks::check(group, run)?;
    if run.config.is_not_private() {
        let folder = folder.expect("a run without ranks has its folder");
        return not_private::train(run, folder, checkpoint, progress);
    }
    damper_core::self_test()?;
    let ranks = Ranks::new(group, run, run.threads())?;
    let mut key = key(&ranks, run, checkpoint.as_deref())?;
    let backend = ranks.agree(open(run.config.backend).map_err(TrainError::from))?;
    progress.on_event(RunEvent::Opened(&backend.note()));
    let sees_sum = observer.is_some() || ranks.are_several();
    let mut device = device::session(run, backend.as_ref(), sees_sum, device, progress)?;
    let rehearsed = rehearsed(run, backend.as_ref(), device.as_mut(), progress)?;
    let plan = run.run_plan()?;
    let environment = Environment::of(run, backend.as_ref(), run.threads());
    ranks.check_same(run, &environment)?;
    let place = match &mut checkpoint {
        None => Ok(Place { first: 0, charged: 0, lost: 0 }),
        Some(checkpoint) => checkpoint.place(environment, &plan),
    };
    let place = ranks.of_rank_0(place.map(Some), Place::bytes, Place::of_bytes)?.ok_or(RankError::Left)?;
    let [ledger, evaluations] = ledgers(run, &ranks, folder, &plan, place);
    // This may take minutes. A stop in that time charges nothing.
    let computed = ranks.agree(frozen::computed(run, backend.as_ref(), progress))?;
    let run = computed.as_ref().unwrap_or(run);
    let origin = run.config.seed.map_or(Origin::Key(&key), Origin::Seed);
    let begun = match &checkpoint {
        None => Beginning::New { kept: false },
        Some(checkpoint) => checkpoint.recorded(place),
    };
    let (recording, is_recorded) = recording(Recording::begin(run, origin, begun)?, progress);
    let generator = generator::generator(run.config.seed, &mut key);
    let watched = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
    let normalize = constants(run, &ranks, folder, checkpoint.as_deref_mut(), &plan, &generator, watched)?;
    let normalized = normalize.clone().map(|constants| normalized(run, constants));
    let run = normalized.as_ref().unwrap_or(run);
    let written = Written { folder, plan, ledger, evaluations, recording, checkpoint, place };
    let backend = backend.as_ref();
    let settled = Settled { run, ranks, generator: &generator, backend, written, progress, observer };
    let outcome = match device {
        Some(device) => step_loop::go_on_device(run, backend, device, settled),
        None => step_loop::go(run, backend, settled),
    };
    let Rehearsed { independence, difference, .. } = rehearsed;
    let difference = difference.map(|difference| difference.to_string());
    Ok(Outcome { independence, difference, is_recorded, normalize, ..outcome? })
}

/// Returns the key of the run's noise, on all ranks: the key of the saved state, or a fresh key.
fn key(ranks: &Ranks<'_>, run: &Run, checkpoint: Option<&Checkpoint>) -> Result<Zeroizing<[u8; 32]>, TrainError> {
    let own = checkpoint.map_or_else(|| generator::key(run.config.seed), |checkpoint| Ok(checkpoint.key()));
    let key = ranks.of_rank_0(own.map(Some), |key| key.to_vec(), |bytes| bytes.try_into().ok().map(Zeroizing::new))?;
    Ok(key.ok_or(RankError::Left)?)
}

/// Does the dry run on synthetic samples. Lists the nodes that are not on the backend's device.
fn rehearsed(
    run: &Run,
    backend: &dyn Backend,
    device: Option<&mut DeviceSession>,
    progress: &mut dyn Progress,
) -> Result<Rehearsed, TrainError> {
    let rehearsed = if let Some(device) = device {
        self_test(backend, &run.model.grad, &OUTPUTS, run.model.physical_batch, &run.model.params)?;
        let rehearsed = device.rehearse(run)?;
        check_evaluation(run, backend)?;
        check_result(run)?;
        rehearsed
    } else if run.config.normalize_private.is_some() {
        // The constants must be charged before the dry run of the steps.
        rehearse_on(run, backend)?
    } else {
        let rehearsed = of_gradients(run, backend)?;
        check_result(run)?;
        rehearsed
    };
    if rehearsed.none_is_finite {
        progress.on_event(RunEvent::Warned(NONE_IS_FINITE));
    }
    host_nodes::warn(backend, progress);
    let difference = rehearsed.difference.as_ref().map(ToString::to_string);
    if let Some(difference) = &difference {
        progress.on_event(RunEvent::Warned(&format!(
            "a sample's gradient does not depend on that sample alone: {difference}"
        )));
    }
    if run.is_sharded() && rehearsed.independence != Independence::Tested {
        // The samples that share a batch depend on the shards.
        let difference = difference.map_or(String::new(), |difference| format!(" ({difference})"));
        let problem = format!(
            "on this backend a sample's gradient has other bits beside other samples{difference}, and shards change those; leave it out"
        );
        return Err(SettingError::new("shard_data", "", problem).into());
    }
    Ok(rehearsed)
}

/// Opens the ledgers of steps and of releases from held-out rows, starting at `place`.
fn ledgers<'a>(
    run: &Run,
    ranks: &Ranks<'a>,
    folder: Option<&Path>,
    plan: &RunPlan,
    place: Place,
) -> [Ledger<RanksLedger<'a>>; 2] {
    let steps = run.price.terms.steps;
    let file = folder.map(|folder| LedgerFile::new(folder, plan, place.charged));
    let ledger = Ledger::resume(ranks.ledger(file), steps, place.first).with_reserve(RESERVE);
    let releases = run.price.private_metrics.as_ref().map_or(0, |metrics| metrics.releases);
    let released =
        evaluations_until(place.first, steps, steps_between(&run.config, run.price.terms.rate)).min(releases);
    let file = folder.map(|folder| LedgerFile::of_held_out(folder, plan));
    let evaluations = Ledger::resume(RanksLedger::new(file, &Alone), releases, released).with_reserve(releases);
    [ledger, evaluations]
}

/// Returns the recording if it continues, and whether the run is recorded.
fn recording(begun: Begun, progress: &mut dyn Progress) -> (Option<Recording>, bool) {
    match begun {
        Begun::Recording(recording) => {
            let is_recorded = recording.is_some();
            (recording, is_recorded)
        }
        Begun::Whole => (None, true),
        Begun::Lost(why, has_part) => {
            progress.on_event(RunEvent::Unrecorded { why, has_part });
            (None, false)
        }
    }
}
