//! The ranks of a training run: processes that MPI started, or threads of one process.
//!
//! The trainer depends only on [`Group`]. [`join`] returns this process's end of a group. With the feature `mpi`, it is
//! the group of the processes that `mpirun` or `srun` started. Otherwise it is a group of one process.

mod error;
mod known;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi;
mod threads;

pub use damper_train::Group;
pub use error::JoinError;
pub use launcher::Apart;
pub use threads::Threads;

use damper_train::Alone;
use launcher::{Launch, launch};

/// A process's end of its group.
#[derive(Debug)]
pub enum Joined {
    /// The process is alone.
    Alone(Alone),
    /// MPI started several processes.
    #[cfg(feature = "mpi")]
    Mpi(mpi::Mpi),
}

/// Joins the group of this process. Call it at most once per process.
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

/// SageMaker's variable, and the file with the same content, for containers without its toolkit.
const SAGEMAKER: (&str, &str) = ("SM_RESOURCE_CONFIG", "/opt/ml/input/config/resourceconfig.json");

/// Returns a variable of the environment.
fn variable(name: &str) -> Option<String> {
    let of_file = || (name == SAGEMAKER.0).then(|| std::fs::read_to_string(SAGEMAKER.1).ok()).flatten();
    std::env::var(name).ok().or_else(of_file)
}

impl Joined {
    /// Returns the group.
    pub fn group(&self) -> &dyn Group {
        match self {
            Self::Alone(alone) => alone,
            #[cfg(feature = "mpi")]
            Self::Mpi(mpi) => mpi,
        }
    }

    /// Leaves the group after an error, with the process's exit code. Another process may wait for this process and not
    /// leave. After a few seconds, this ends all processes of the group.
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
