//! Files of an aggregator and of a gateway: whole or absent, private, and with their own digest.

use crate::FolderError;
use crate::bytes::{Reader, put};
use crate::upload::Upload;
use damper_files::{Access, FileError, read_if_there, write};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

const MAGIC: &[u8; 8] = b"DAMPERPR";

/// Writes `body` with its SHA-256. When it returns, the file survives a power cut.
pub(crate) fn write_sealed(file: &Path, body: &[u8]) -> Result<(), FileError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(body);
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    write(file, &bytes, Access::Private)
}

/// Reads a file that [`write_sealed`] wrote. Returns `None` if it does not exist.
pub(crate) fn read_sealed(file: &Path) -> Result<Option<Vec<u8>>, FolderError> {
    let found = read_if_there(file).map_err(|error| FolderError::Io { file: file.into(), error })?;
    let Some(bytes) = found else { return Ok(None) };
    let body = || {
        let (rest, digest) = bytes.split_last_chunk::<32>()?;
        (Sha256::digest(rest)[..] == digest[..]).then_some(())?;
        rest.strip_prefix(MAGIC)
    };
    body().map(|body| Some(body.to_vec())).ok_or_else(|| FolderError::Damaged(file.into()))
}

/// Removes an obsolete file. If this fails, the next opening of the folder removes it.
pub(crate) fn remove(file: &Path) {
    let _ = fs::remove_file(file);
}

/// Content of a device's file at an aggregator.
pub(crate) enum Content {
    /// An unverified report.
    Stored(Upload),
    /// The aggregator's verifier message, and its share of the update.
    Verified { round: u32, digest: [u8; 32], request: [u8; 32], message: Vec<u8>, output: Vec<u8> },
    /// A report with an invalid proof.
    Refused { round: u32, digest: [u8; 32], request: [u8; 32] },
}

impl Content {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let head = |stage: u8, round: &u32, digest: &[u8; 32], request: &[u8; 32]| {
            [&[stage][..], &round.to_le_bytes(), digest, request].concat()
        };
        match self {
            Self::Stored(upload) => [vec![0], upload.to_bytes()].concat(),
            Self::Verified { round, digest, request, message, output } => {
                let mut out = head(1, round, digest, request);
                put(&mut out, message);
                put(&mut out, output);
                out
            }
            Self::Refused { round, digest, request } => head(2, round, digest, request),
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let stage = reader.u8()?;
        if stage == 0 {
            return Upload::from_bytes(reader.0).map(Self::Stored);
        }
        let (round, digest, request) = (reader.u32()?, reader.array()?, reader.array()?);
        let content = match stage {
            1 => Self::Verified {
                round,
                digest,
                request,
                message: reader.bytes()?.to_vec(),
                output: reader.bytes()?.to_vec(),
            },
            2 => Self::Refused { round, digest, request },
            _ => return None,
        };
        reader.end(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_file_is_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("device-1");
        assert!(read_sealed(&file).unwrap().is_none());
        let content =
            Content::Verified { round: 3, digest: [1; 32], request: [2; 32], message: vec![4; 9], output: vec![5; 16] };
        write_sealed(&file, &content.to_bytes()).unwrap();
        let body = read_sealed(&file).unwrap().unwrap();
        assert_eq!(Content::from_bytes(&body).unwrap().to_bytes(), content.to_bytes());
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&file, &bad).unwrap();
            assert!(matches!(read_sealed(&file), Err(FolderError::Damaged(_))), "{at}");
            fs::write(&file, &good[..at]).unwrap();
            assert!(matches!(read_sealed(&file), Err(FolderError::Damaged(_))), "{at}");
        }
    }
}
