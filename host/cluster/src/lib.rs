//! The ranks of a training run: processes that MPI started, or threads of one process.
//!
//! The trainer knows [`Group`] alone. [`join`] gives this process its end of a group: with the feature `mpi` that of the processes that
//! `mpirun` or `srun` has started, else one of its own.

mod known;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi;
mod threads;

pub use damper_train::Group;
pub use launcher::Apart;
pub use threads::Threads;

use damper_train::Alone;
use launcher::{Launch, launch};

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
    /// It was started as one of several that nothing joins.
    Apart(Apart),
    /// MPI does not start.
    Failed,
    /// MPI has started, and joins fewer processes than the launcher has started.
    Fewer {
        /// Processes of the launcher, at least.
        started: usize,
        /// Processes that MPI joins.
        joined: usize,
    },
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMpi(size) => write!(
                f,
                "started as one of {size} processes, and this damper is built without MPI: build it with --features mpi, or start one"
            ),
            Self::Apart(Apart { launcher, variable, size }) => {
                let size = size.map_or_else(|| "several".to_owned(), |size| size.to_string());
                write!(
                    f,
                    "started as one of {size} processes by {launcher} ({variable} is set), which damper does not join: each would train a model of \
                     its own, whose epsilon does not cover the others"
                )
            }
            Self::Failed => {
                f.write_str("MPI does not start: use mpirun or srun of the MPI library that damper was built with")
            }
            Self::Fewer { started, joined } => write!(
                f,
                "started as one of {started} processes, and MPI joins {joined}: use mpirun or srun of the MPI library that damper was built with"
            ),
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
    match launch(variable) {
        Launch::Alone => Ok(Joined::Alone(Alone)),
        #[cfg(feature = "mpi")]
        Launch::Mpi(size) => mpi::Mpi::start(size).map(Joined::Mpi),
        #[cfg(not(feature = "mpi"))]
        Launch::Mpi(size) => Err(JoinError::NoMpi(size)),
        Launch::Apart(apart) => Err(JoinError::Apart(apart)),
    }
}

/// The file that has what SageMaker's variable has, in containers without its toolkit.
const SAGEMAKER: (&str, &str) = ("SM_RESOURCE_CONFIG", "/opt/ml/input/config/resourceconfig.json");

/// A variable of the environment.
fn variable(name: &str) -> Option<String> {
    let of_file = || (name == SAGEMAKER.0).then(|| std::fs::read_to_string(SAGEMAKER.1).ok()).flatten();
    std::env::var(name).ok().or_else(of_file)
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
