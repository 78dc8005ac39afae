//! The last update that left a device: sent again, byte for byte, for the same request alone.
//!
//! A lost reply or a restarted server asks again. Another update of the round would have other noise, and the difference of the two would have less.
//! So the bytes are on the disk before they leave the device, and a request that differs gets none.

use crate::FederationError;
use damper_files::{Access, sealed, sha256, write};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KEPT: &str = "kept.upd";

/// The update that is kept in a device's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    request: String,
    bytes: Vec<u8>,
}

/// What the first line says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    request: String,
    bytes: String,
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Kept {
    /// The update that `folder` keeps, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged.
    pub fn read(folder: &Path) -> Result<Option<Self>, FederationError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            kept: Head,
            sha256: String,
        }
        let file = folder.join(KEPT);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FederationError::Io { file, error }),
        };
        let damaged = || FederationError::Ledger { folder: folder.into(), problem: format!("{KEPT} is damaged") };
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let (line, rest) = bytes.split_at(end + 1);
        let Line { kept, sha256: digest } = serde_json::from_slice(line).map_err(|_| damaged())?;
        if sealed::digest(&kept) != digest || sha256(rest) != kept.bytes {
            return Err(damaged());
        }
        Ok(Some(Self { request: kept.request, bytes: rest.to_vec() }))
    }

    /// The bytes, if they answered this request.
    #[must_use]
    pub fn for_request(self, request: &[u8; 32]) -> Option<Vec<u8>> {
        (self.request == hex(request)).then_some(self.bytes)
    }
}

/// The place where an update is kept, for a request.
#[derive(Clone, Debug)]
pub struct Keeping {
    file: PathBuf,
    request: [u8; 32],
}

impl Keeping {
    /// Keeps the answer to `request` in `folder`.
    #[must_use]
    pub fn new(folder: &Path, request: [u8; 32]) -> Self {
        Self { file: folder.join(KEPT), request }
    }

    /// Keeps `bytes` in the place of the update before. When it returns, they survive a power cut and may leave the device.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn keep(&self, bytes: &[u8]) -> Result<(), FederationError> {
        let head = Head { request: hex(&self.request), bytes: sha256(bytes) };
        let mut content = sealed::line("kept", "", &head).0.into_bytes();
        content.extend_from_slice(bytes);
        Ok(write(&self.file, &content, Access::Private)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_request_gets_same_bytes_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |request| Kept::read(folder.path()).unwrap().and_then(|kept| kept.for_request(request));
        assert_eq!(of(&[1; 32]), None);
        Keeping::new(folder.path(), [1; 32]).keep(b"one\ntwo").unwrap();
        assert_eq!((of(&[1; 32]).as_deref(), of(&[2; 32])), (Some(&b"one\ntwo"[..]), None));
        Keeping::new(folder.path(), [2; 32]).keep(b"").unwrap();
        assert_eq!((of(&[1; 32]), of(&[2; 32]).as_deref()), (None, Some(&b""[..])));
    }

    #[test]
    fn damaged_kept_update_is_error() {
        let folder = tempfile::tempdir().unwrap();
        Keeping::new(folder.path(), [1; 32]).keep(b"update").unwrap();
        let file = folder.path().join(KEPT);
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&file, &bad).unwrap();
            assert!(Kept::read(folder.path()).is_err(), "{at}");
        }
    }
}
