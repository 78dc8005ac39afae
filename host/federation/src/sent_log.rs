//! The log of updates that left a device: a line of JSON for each, in the device's folder. It is for the owner, and as
//! secret as the data.

use crate::FederationError;
use damper_files::sha256;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const LOG: &str = "sent.log";

/// The log in a device's folder.
#[derive(Clone, Debug)]
pub struct SentLog(PathBuf);

#[derive(Serialize)]
struct Line<'a> {
    unix_seconds: u64,
    round: u32,
    what: &'a str,
    bytes: usize,
    sha256: String,
}

impl SentLog {
    /// Returns the log of `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self(folder.join(LOG))
    }

    /// Appends a line for `bytes` that leave the device in `round`. `what` describes them in a few words.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn add(&self, round: u32, what: &str, bytes: &[u8]) -> Result<(), FederationError> {
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let line = Line { unix_seconds, round, what, bytes: bytes.len(), sha256: sha256(bytes) };
        let failed = |error| FederationError::Io { file: self.0.clone(), error };
        let text = serde_json::to_string(&line).map_err(|error| failed(error.into()))? + "\n";
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.0).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }
}
