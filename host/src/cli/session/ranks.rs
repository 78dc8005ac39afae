//! `damper train` as one of several MPI processes.

use crate::cli::session::signals::Signals;
use crate::cli::{Failure, complain, fail_in_json};
use damper_cluster::{JoinError, Joined, join};
use damper_train::{Alone, Group, Progress, Run, agree, run_on};
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// Returns the process's group. With `alone` the group is this process, whatever launched it.
fn group_of(alone: bool) -> Result<Joined, Failure> {
    if alone {
        return Ok(Joined::Alone(Alone));
    }
    join().map_err(|error| match error {
        JoinError::Apart(_) => Failure::new(format!(
            "{error}; start one process, or the ranks of one run by mpirun or srun --mpi=pmix (docs/cluster.md). `alone`: each trains by \
             itself, and their epsilons add up"
        )),
        JoinError::NoMpi(_) | JoinError::Fewer { .. } => {
            Failure::new(format!("{error}. `alone`: each trains by itself, and their epsilons add up"))
        }
        error => error.into(),
    })
}

/// Fails if this is one of several processes, unless each works alone.
pub(in crate::cli) fn refuse_several(alone: bool) -> Result<(), Failure> {
    match group_of(alone)?.group().size() {
        1 => Ok(()),
        size => Err(Failure::new(format!(
            "started as one of {size} processes, and this command runs in one: start one, or add `alone` if each is to work by itself; their \
             epsilons add up"
        ))),
    }
}

/// Calls `train` with the process's group. If there are several ranks, each prints its own error, because it may be
/// ended next.
pub(in crate::cli) fn on_ranks(
    in_json: bool,
    alone: bool,
    train: impl FnOnce(&dyn Group) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let joined = group_of(alone)?;
    let result = train(joined.group());
    let is_leader = joined.group().rank() == 0;
    match result {
        Err(failure) if joined.group().size() > 1 => {
            complain(&failure.message);
            if in_json && is_leader {
                fail_in_json(&failure);
            }
            let code = failure.exit_code();
            joined.fail(code);
            Ok(ExitCode::from(code))
        }
        result => result,
    }
}

/// Trains as a rank other than 0. It writes and prints nothing.
pub(in crate::cli) fn follow(
    model: &Path,
    group: &dyn Group,
    prepare: impl FnOnce() -> Result<Run, Failure>,
) -> Result<ExitCode, Failure> {
    // Rank 0 makes the charge.
    agree(group, Ok::<(), Failure>(()))?;
    let run = agree(group, prepare())?;
    let signals = Signals::listen()?;
    let outcome = run_on(&run, group, None, None, &mut Follower(&signals));
    let outcome = outcome.map_err(|error| Failure::in_model(model, error))?;
    // Rank 0 writes the outputs.
    agree(group, Ok::<(), Failure>(()))?;
    Ok(signals.code().filter(|_| outcome.stopped).map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Observer without output, which stops the run if this process receives a signal.
struct Follower<'a>(&'a Signals);

impl Progress for Follower<'_> {
    fn stop(&mut self) -> bool {
        self.0.code().is_some()
    }
}

/// Text of an error for the other ranks.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
