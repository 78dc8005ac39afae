//! Errors of joining a group.

use super::Apart;
use std::fmt::{Display, Formatter, Result};

/// The error of a process that cannot join its group.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The process is one of this many, but this program does not support MPI.
    NoMpi(usize),
    /// The process is one of several that nothing connects.
    Apart(Apart),
    /// MPI does not start.
    Failed,
    /// MPI started, but joined fewer processes than the launcher started.
    Fewer {
        /// Minimum number of processes that the launcher started.
        started: usize,
        /// Number of processes that MPI joined.
        joined: usize,
    },
}

impl Display for JoinError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
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
