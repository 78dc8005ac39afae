//! The folder of a run's outputs, and the names of its ledgers.

pub use damper_files::{
    Access, AtomicFile, FileError, MadeFolders, claim_private_folder, create_new_private, create_private_folder, json,
    sha256, write,
};
pub(crate) use damper_files::{failed, folder_of, hex, may_be_there, sync_folder_of, write_pieces};

use std::fs;
use std::io;
use std::path::Path;

/// The setting that names most files.
const OUT: &str = "out";

/// The ledger of the steps, in a private folder.
pub const LEDGER: &str = "ledger.json";
/// The ledger of the release of means and deviations before the steps.
pub const NORMALIZE_LEDGER: &str = "ledger-normalize.json";
/// The ledger of the release of the number of rows without a finite gradient before the steps.
pub const NON_FINITE_LEDGER: &str = "ledger-non-finite.json";
/// The ledger of the noisy figures of held-out rows, which follow a step.
pub const HELD_OUT_LEDGER: &str = "ledger-held-out.json";

/// Returns false only if the run in `folder` cannot have charged anything: no step, and no release before the steps.
pub fn may_hold_ledger(folder: &Path) -> bool {
    let checkpoint = folder.join("checkpoint");
    [LEDGER, NORMALIZE_LEDGER, NON_FINITE_LEDGER].iter().any(|ledger| may_be_there(&checkpoint.join(ledger)))
}

/// Creates the folder for a run's outputs, with its parents. An existing empty folder is used.
///
/// # Errors
///
/// The folder exists and is not empty, is a file, or cannot be created or written.
pub fn create_output_folder(path: &Path) -> Result<(), FileError> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                if may_hold_ledger(path) {
                    return Err(FileError(format!(
                        "{}: holds the ledger of a run, whose privacy cost counts against its data: keep it and name another `out`",
                        path.display()
                    )));
                }
                return Err(FileError(format!(
                    "{}: the output folder exists and is not empty: name another `out` or remove it",
                    path.display()
                )));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absent = MadeFolders::for_path(path);
            let made = fs::create_dir_all(path).and_then(|()| absent.sync());
            absent.keep();
            made.map_err(|error| failed(path, OUT, &error))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(FileError(format!(
                "{}: the output folder is a file, or lies under one: name another `out`",
                path.display()
            )));
        }
        Err(error) => return Err(failed(path, OUT, &error)),
    }
    // Finds a folder that cannot be written now, not after training.
    tempfile::Builder::new().prefix(".damper-").tempfile_in(path).map_err(|error| failed(path, OUT, &error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn output_folder_is_created_or_reused_empty() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/b/out");
        create_output_folder(&out).unwrap();
        create_output_folder(&out).unwrap();
        assert_eq!(entries(&out), 0);
    }

    #[test]
    fn non_empty_output_folder_is_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.onnx"), b"precious").unwrap();
        let message = create_output_folder(folder.path()).unwrap_err().to_string();
        assert!(message.contains(&folder.path().display().to_string()) && message.contains("another `out`"));
        assert_eq!(fs::read(folder.path().join("model.onnx")).unwrap(), b"precious");
    }

    #[test]
    fn output_folder_at_file_is_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path().to_path_buf(), file.path().join("out")] {
            let message = create_output_folder(&path).unwrap_err().to_string();
            assert!(message.contains("another `out`") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn unwritable_output_folder_is_named() {
        // A folder of procfs, which even root cannot write to.
        let path = Path::new("/proc/damper-out");
        if !Path::new("/proc/self").exists() {
            damper_testing::skip("proc", "there is no /proc");
            return;
        }
        let message = create_output_folder(path).unwrap_err().to_string();
        assert!(message.contains("/proc/damper-out") && !message.contains('\n'), "{message}");
    }
}
