//! Checks of free disk space for a run's files, before anything is charged.

use crate::state::checkpoint::STATES;
use crate::state::files::{FileError, folder_of};
use crate::state::recording::recording_bytes;
use crate::state::replay::part_of;
use crate::{Run, TrainError};
use damper_core::state::{self, SaveState};
use prost::Message;
use std::fs;
use std::path::{Path, PathBuf};

/// Space for reports, metrics, the plan and ledgers.
const SMALL_FILES: u64 = 1 << 17;

/// Returns an error if the outputs of a run do not fit on their disks. Counts the model and the small files next to the
/// private folder `folder`, the states of `memory` if kept, and the rest of the recording. Later writes by this process
/// or others are not counted.
///
/// # Errors
///
/// A disk has too little free space.
pub(crate) fn check_room(run: &Run, folder: &Path, memory: Option<&mut dyn SaveState>) -> Result<(), TrainError> {
    let state = memory.map_or(0, |memory| {
        let sizes = STATES.map(|name| fs::metadata(folder.join(name)).map_or(0, |found| found.len()));
        states_to_come(saved_bytes(memory), &sizes)
    });
    let model = run.model.onnx.encoded_len() as u64;
    let out = folder.parent().unwrap_or(folder);
    let mut needed = vec![Need { what: "model", setting: "out", at: out.into(), bytes: model + SMALL_FILES }];
    if state > 0 {
        needed.push(Need { what: "checkpoint", setting: "out", at: out.into(), bytes: state });
    }
    if run.config.stop_early.is_some() {
        // One copy is kept with the states, and a model with these parameters is written.
        let bytes = model.saturating_mul(2);
        needed.push(Need { what: "best parameters", setting: "out", at: out.into(), bytes });
    }
    if let Some(record) = &run.config.record {
        let part = fs::metadata(part_of(&record.file)).map_or(0, |part| part.len());
        let bytes = recording_bytes(run).saturating_sub(part);
        needed.push(Need { what: "recording", setting: "record", at: folder_of(&record.file).into(), bytes });
    }
    Ok(check_all(&needed, &free)?)
}

/// Returns the size of a state in bytes.
fn saved_bytes(memory: &mut dyn SaveState) -> u64 {
    let mut bytes = 0;
    state::save(memory, 1, &mut |part: &[u8]| bytes += part.len() as u64);
    bytes
}

/// Returns the bytes that states of `bytes` each need in addition to those of these `sizes`. Each file grows to that
/// size, and a new file is complete before an old file is removed.
fn states_to_come(bytes: u64, sizes: &[u64]) -> u64 {
    let grown = sizes.iter().map(|size| bytes.saturating_sub(*size));
    grown.fold(bytes, u64::saturating_add)
}

/// Returns an error if a file of this many bytes does not fit on its disk. `setting` is the setting of its path.
///
/// # Errors
///
/// There is too little free space.
pub fn check_file_fits(file: &Path, bytes: u64, setting: &'static str) -> Result<(), FileError> {
    check_all(&[Need { what: "file", setting, at: folder_of(file).into(), bytes }], &free)
}

/// The bytes to be written into a folder.
struct Need {
    what: &'static str,
    /// The setting of the path.
    setting: &'static str,
    at: PathBuf,
    bytes: u64,
}

/// A disk, with the bytes available to this user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    disk: u64,
    bytes: u64,
}

/// Compares the bytes for each disk with its free space.
fn check_all(needed: &[Need], free: &dyn Fn(&Path) -> Option<Room>) -> Result<(), FileError> {
    for need in needed {
        let Some(room) = free(&need.at) else { continue };
        let beside: Vec<&Need> =
            needed.iter().filter(|other| free(&other.at).is_some_and(|other| other.disk == room.disk)).collect();
        let total = beside.iter().fold(0u64, |total, need| total.saturating_add(need.bytes));
        if total > room.bytes {
            let what: Vec<String> = beside.iter().map(|need| format!("{} {}", need.what, size(need.bytes))).collect();
            return Err(FileError(format!(
                "{}: its disk has {} free, and the run writes about {} ({}); free some space or name another `{}`",
                need.at.display(),
                size(room.bytes),
                size(total),
                what.join(", "),
                need.setting
            )));
        }
    }
    Ok(())
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Returns the free space on the disk of a folder. Returns `None` if the system does not report it, or reports a disk
/// without blocks.
#[cfg(unix)]
fn free(folder: &Path) -> Option<Room> {
    use std::os::unix::fs::MetadataExt;
    let found = rustix::fs::statvfs(folder).ok().filter(|found| found.f_blocks > 0)?;
    let disk = fs::metadata(folder).ok()?.dev();
    Some(Room { disk, bytes: found.f_bavail.saturating_mul(found.f_frsize) })
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<Room> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(what: &'static str, at: &str, bytes: u64) -> Need {
        Need { what, setting: if what == "recording" { "record" } else { "out" }, at: at.into(), bytes }
    }

    // Before a run there are two initial states, which are small.
    #[test]
    fn states_grow_to_the_size_of_the_memory() {
        let mut params = [0.5f32; 1000];
        let bytes = saved_bytes(&mut params);
        assert!((4000..4200).contains(&bytes), "{bytes}");
        assert_eq!(states_to_come(bytes, &[100, 0]), 3 * bytes - 100);
        assert_eq!(states_to_come(bytes, &[bytes + 50, bytes]), bytes);
    }

    // The files of one disk are added, and each disk is checked separately.
    #[test]
    fn files_of_one_disk_are_added() {
        let rooms = |folder: &Path| match folder.to_str() {
            Some("a" | "b") => Some(Room { disk: 1, bytes: 5_000 }),
            Some("c") => Some(Room { disk: 2, bytes: 100 }),
            _ => None,
        };
        let check = |needed: &[Need]| check_all(needed, &rooms).map_err(|error| error.to_string());
        assert!(
            check(&[need("model", "a", 3_000), need("checkpoint", "b", 2_000), need("recording", "c", 100)]).is_ok()
        );
        let message = check(&[need("model", "a", 3_000), need("checkpoint", "b", 2_001)]).unwrap_err();
        assert_eq!(
            message,
            "a: its disk has 5 kB free, and the run writes about 6 kB (model 3 kB, checkpoint 3 kB); free some space or name another `out`"
        );
        let message = check(&[need("model", "a", 1), need("recording", "c", 101)]).unwrap_err();
        assert!(message.starts_with("c: its disk has 1 kB free") && message.ends_with("another `record`"), "{message}");
        assert!(check(&[need("model", "unknown", u64::MAX)]).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let room = free(folder.path()).unwrap();
        assert!(room.bytes > 0 && Some(room.disk) == free(folder.path()).map(|room| room.disk));
        assert_eq!(free(&folder.path().join("absent")), None);
        assert!(check_file_fits(&folder.path().join("file"), 1, "out").is_ok());
        let message = check_file_fits(&folder.path().join("file"), u64::MAX, "out").unwrap_err().to_string();
        assert!(message.contains("another `out`"), "{message}");
    }
}
