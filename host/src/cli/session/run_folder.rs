//! The output folder of a run without `--out`: the next free number in `damper-runs`.

use crate::cli::Failure;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Folder of the runs that name none.
const RUNS: &str = "damper-runs";
/// File that keeps the runs out of a repository, because `checkpoint/` is as secret as the data.
const IGNORE: &str = ".gitignore";

/// An output folder that was made for a run. If the run leaves it empty, it is removed again.
#[derive(Debug)]
pub(in crate::cli) struct RunFolder(PathBuf);

impl RunFolder {
    /// Creates the next free folder. Concurrent runs each get their own.
    pub(in crate::cli) fn next() -> Result<Self, Failure> {
        let runs = Path::new(RUNS);
        let failed =
            |error| Failure::in_file(runs, format!("cannot be made or read ({error}); name a folder by `out`"));
        loop {
            fs::create_dir_all(runs).map_err(failed)?;
            ignore(runs).map_err(failed)?;
            let names = fs::read_dir(runs).map_err(failed)?.flatten().map(|entry| entry.file_name());
            let last = names.filter_map(|name| name.to_str()?.parse::<u32>().ok()).max().unwrap_or(0);
            let Some(next) = last.checked_add(1) else {
                return Err(Failure::in_file(
                    runs,
                    format!("has a folder {last}, the largest number; name a folder by `out`"),
                ));
            };
            let folder = runs.join(format!("{next:04}"));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self(folder)),
                // Another run was faster, or has just removed the folder of all runs.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }
}

/// Writes the file that makes git ignore a folder's content, unless it is there.
fn ignore(folder: &Path) -> Result<(), std::io::Error> {
    let file = folder.join(IGNORE);
    if file.exists() {
        Ok(())
    } else {
        fs::write(file, "# Runs may hold keys and states, which are as secret as the data.\n*\n")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Only empty folders can be removed. The folder of all runs stays, because another run may use it.
        let _ = fs::remove_dir(&self.0);
    }
}
