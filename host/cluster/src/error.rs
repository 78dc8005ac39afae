//! Errors of joining a group.

use super::Apart;
use std::fmt::{Display, Formatter, Result};

/// A process cannot join a group.
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
