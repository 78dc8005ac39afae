//! The ranks of a training run: processes that MPI started, or threads of one process.
//!
//! The trainer knows [`Group`] alone. [`join`] gives this process its end of a group: with the feature `mpi` that of the processes that
//! `mpirun` or `srun` has started, else one of its own.

#[cfg(feature = "mpi")]
mod mpi;
mod threads;

pub use damper_train::Group;
pub use threads::Threads;

use damper_train::Alone;

/// A process's end of its group.
#[derive(Debug)]
pub enum Joined {
    /// The process is alone.
    Alone(Alone),
    /// MPI has started several.
    #[cfg(feature = "mpi")]
    Mpi(mpi::Mpi),
}

/// Why a process cannot join a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// It was started as one of so many, and this program knows no MPI.
    NoMpi(usize),
    /// MPI does not start.
    Failed,
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMpi(size) => write!(
                f,
                "started as one of {size} processes, and this damper is built without MPI: build it with --features mpi, or start one"
            ),
            Self::Failed => {
                f.write_str("MPI does not start: use mpirun or srun of the MPI library that damper was built with")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// Joins the group of this process. At most once a process.
///
/// # Errors
///
/// The process is one of several, and they cannot be joined.
pub fn join() -> Result<Joined, JoinError> {
    match launched() {
        None | Some(1) => Ok(Joined::Alone(Alone)),
        #[cfg(feature = "mpi")]
        Some(size) => mpi::Mpi::start(size).map(Joined::Mpi).ok_or(JoinError::Failed),
        #[cfg(not(feature = "mpi"))]
        Some(size) => Err(JoinError::NoMpi(size)),
    }
}

impl Joined {
    /// The group.
    pub fn group(&self) -> &dyn Group {
        match self {
            Self::Alone(alone) => alone,
            #[cfg(feature = "mpi")]
            Self::Mpi(mpi) => mpi,
        }
    }

    /// Leaves the group after an error, with the process's exit code. Ends all processes of the group if one of them does not leave in a few
    /// seconds: it waits for this one.
    pub fn fail(self, code: u8) {
        match self {
            Self::Alone(_) => {
                let _ = code;
            }
            #[cfg(feature = "mpi")]
            Self::Mpi(mpi) => mpi.fail(code),
        }
    }
}

/// The number of processes that a launcher of MPI has started, if one has: Open MPI, or one that speaks PMI, such as MPICH's and SLURM's.
fn launched() -> Option<usize> {
    let size = |name: &str| std::env::var(name).ok()?.trim().parse().ok();
    // Without its plugin for PMIx or PMI, srun starts processes that do not know each other.
    let of_slurm = || std::env::var_os("PMIX_RANK").and_then(|_| size("SLURM_STEP_NUM_TASKS"));
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"].into_iter().find_map(size).or_else(of_slurm)
}
