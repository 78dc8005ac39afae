//! Errors of resuming a run.

use std::io;
use std::path::PathBuf;

/// An error of resuming a run: one line with the folder or file and the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum CheckpointError {
    #[error("{}: there is nothing to resume: no run that can be resumed has begun here", .0.display())]
    Nothing(PathBuf),
    #[error("{}: no file of its state can be used ({problem}), so the run cannot be resumed; its charged steps still count", folder.display())]
    Damaged { folder: PathBuf, problem: String },
    #[error("{}: the run is still going on in another process; wait for it or stop it first", .0.display())]
    Running(PathBuf),
    #[error("{}: the {what} is not the one that the run began with; resume it with the same", folder.display())]
    Other { folder: PathBuf, what: &'static str },
    #[error("{}: its ledger cannot be used ({problem}), and the run began with another program, backend or processor, so the steps it may have released are unknown; resume it where it began", folder.display())]
    Ledger { folder: PathBuf, problem: String },
    #[error("{}: {error}; make it readable and writable", file.display())]
    Io { file: PathBuf, error: io::Error },
}
