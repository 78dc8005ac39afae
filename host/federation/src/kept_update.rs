//! The last update that left a device. It is sent again, byte for byte, only for the same request.
//!
//! A lost reply or a restarted server causes a repeated request. A second update of the round with other noise would
//! allow averaging, which lowers the noise. So the bytes are on disk before they leave the device, and a different
//! request gets an error.

use crate::FederationError;
use crate::round_ledger::SETTING;
use damper_files::{Access, hex, sealed, sha256, write_for};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KEPT: &str = "kept.upd";

/// The update stored in a device's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptUpdate {
    request: String,
    bytes: Vec<u8>,
}

/// The first line: the digests of the request and of the bytes after it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    request: String,
    bytes: String,
}

impl KeptUpdate {
    /// Reads the intact update in `folder`, if there is one. A damaged update is lost. Its round stays charged, and a
    /// later round can be taken.
    ///
    /// # Errors
    ///
    /// The update cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>, FederationError> {
        let file = folder.join(KEPT);
        // Only a regular file is read, not an endless device.
        let read = || if fs::metadata(&file)?.is_file() { fs::read(&file) } else { Ok(vec![]) };
        let bytes = match read() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FederationError::Io { file, error }),
        };
        let whole = || {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            let (line, rest) = bytes.split_at(end + 1);
            let kept: Head = sealed::read("kept", line).ok()?;
            (sha256(rest) == kept.bytes).then(|| Self { request: kept.request, bytes: rest.to_vec() })
        };
        Ok(whole())
    }

    /// Returns the bytes, if they answered this request.
    #[must_use]
    pub fn for_request(self, request: &[u8; 32]) -> Option<Vec<u8>> {
        (self.request == hex(request)).then_some(self.bytes)
    }
}

/// The storage of an update, for a request.
#[derive(Clone, Debug)]
pub struct Keeping {
    file: PathBuf,
    request: [u8; 32],
}

impl Keeping {
    /// Creates the storage of the answer to `request` in `folder`.
    #[must_use]
    pub fn new(folder: &Path, request: [u8; 32]) -> Self {
        Self { file: folder.join(KEPT), request }
    }

    /// Stores `bytes` in place of the previous update. When it returns, they are durable and may leave the device.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn keep(&self, bytes: &[u8]) -> Result<(), FederationError> {
        let head = Head { request: hex(self.request), bytes: sha256(bytes) };
        let mut content = sealed::line("kept", "", &head).0.into_bytes();
        content.extend_from_slice(bytes);
        Ok(write_for(&self.file, &content, Access::Private, SETTING)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_request_gets_same_bytes_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |request| KeptUpdate::read(folder.path()).unwrap().and_then(|kept| kept.for_request(request));
        assert_eq!(of(&[1; 32]), None);
        Keeping::new(folder.path(), [1; 32]).keep(b"one\ntwo").unwrap();
        assert_eq!((of(&[1; 32]).as_deref(), of(&[2; 32])), (Some(&b"one\ntwo"[..]), None));
        Keeping::new(folder.path(), [2; 32]).keep(b"").unwrap();
        assert_eq!((of(&[1; 32]), of(&[2; 32]).as_deref()), (None, Some(&b""[..])));
    }

    #[test]
    fn damaged_kept_update_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        Keeping::new(folder.path(), [1; 32]).keep(b"update").unwrap();
        let file = folder.path().join(KEPT);
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&file, &bad).unwrap();
            assert_eq!(KeptUpdate::read(folder.path()).unwrap(), None, "{at}");
        }
    }
}
