//! The last report of a gateway for a device. It is sent again, byte for byte, only for the same update and request.
//!
//! Two reports of one update could be in two sums. So a report is on the disk before it leaves the gateway, and its
//! round gets no other report.

use crate::bytes::{Reader, put};
use crate::folder::{read_sealed, write_sealed};
use crate::upload::Upload;
use crate::{FolderError, PrioError, Scheme, shard};
use damper_core::update::Update;
use damper_federation::{FederationPlan, MemberKey};
use damper_files::{AtomicFile, create_private_folder};
use sha2::{Digest, Sha256};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folder of a gateway, for one process at a time.
pub struct Gateway {
    folder: PathBuf,
    _lock: File,
}

/// Reason why a report cannot be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum GatewayError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Prio(#[from] PrioError),
    #[error("{}: in use by another process; wait for it", .0.display())]
    Running(PathBuf),
    #[error("the plan has no device {0}; give an update of one of its members")]
    NoMember(u64),
    #[error("the key is not that of device {0} in the plan; give the key of the device whose update it is")]
    OtherKey(u64),
    #[error("device {device} has sent a report for round {kept} already, and rounds go up; take part in the next one")]
    Passed { device: u64, kept: u32 },
    #[error(
        "device {device} has a report for round {round} of another update or other parameters; a device sends one a round: give the same files"
    )]
    Other { device: u64, round: u32 },
    #[error(
        "device {0}: its update is later than the plan's fixed delay, and would show what it drew; take part in the next round, and plan a longer `reply_seconds`"
    )]
    Late(u64),
}

impl Gateway {
    /// Opens the gateway with the folder `folder`, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or another process uses it.
    pub fn open(folder: &Path) -> Result<Self, GatewayError> {
        create_private_folder(folder).map_err(FolderError::from)?;
        let file = folder.join("lock");
        let failed = |error| FolderError::Io { file: file.clone(), error };
        let lock = File::options().create(true).append(true).open(&file).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(GatewayError::Running(folder.into())),
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        // A partial file of a stopped process may hold shares.
        AtomicFile::sweep(folder).map_err(|error| FolderError::Io { file: folder.into(), error })?;
        Ok(Self { folder: folder.into(), _lock: lock })
    }

    /// Returns the leader's and the helper's part of the report of `update`, on `request` in `round`. They are the
    /// stored parts, or new parts, which are then stored.
    ///
    /// `due` is the time at which the plan has the device reply. After it no new report is made. The caller sends the
    /// report at that time.
    ///
    /// # Errors
    ///
    /// It is not an update of `round` by the member of `key`, or it is late. Another report was made for the round or a
    /// later round. Or the disk fails.
    pub fn report(
        &self,
        plan: &FederationPlan,
        round: u32,
        request: [u8; 32],
        update: &[u8],
        key: &MemberKey,
        due: Option<SystemTime>,
    ) -> Result<[Upload; 2], GatewayError> {
        let device = Update::parse(update).map_err(PrioError::from)?.header().device;
        if plan.member(device).ok_or(GatewayError::NoMember(device))?.public_key != key.public() {
            return Err(GatewayError::OtherKey(device));
        }
        let digest: [u8; 32] = Sha256::digest(update).into();
        // The name depends on the plan, because the device may take part in several plans.
        let file = self.folder.join(format!("report-{:016x}-{device}", plan.run_number()));
        if let Some(body) = read_sealed(&file)? {
            let kept = Kept::from_bytes(&body).ok_or_else(|| FolderError::Damaged(file.clone()))?;
            let [leader, _] = &kept.uploads;
            if leader.round > round {
                return Err(GatewayError::Passed { device, kept: leader.round });
            }
            if leader.round == round {
                let same = kept.update == digest && leader.request == request;
                return if same { Ok(kept.uploads) } else { Err(GatewayError::Other { device, round }) };
            }
        }
        let report = shard(&Scheme::of_plan(plan, round)?, update)?;
        let kept = Kept { update: digest, uploads: Upload::sign(plan, request, &report, key) };
        // Computing a report also takes time.
        if due.is_some_and(|due| SystemTime::now() > due) {
            return Err(GatewayError::Late(device));
        }
        write_sealed(&file, &kept.to_bytes()).map_err(FolderError::from)?;
        Ok(kept.uploads)
    }
}

struct Kept {
    /// SHA-256 of the update.
    update: [u8; 32],
    uploads: [Upload; 2],
}

impl Kept {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.update.to_vec();
        self.uploads.iter().for_each(|upload| put(&mut out, &upload.to_bytes()));
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let update = reader.array()?;
        let uploads = [Upload::from_bytes(reader.bytes()?)?, Upload::from_bytes(reader.bytes()?)?];
        reader.end(Self { update, uploads })
    }
}
