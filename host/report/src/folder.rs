//! Output folder of a run. A run that fails before its first charge leaves no folder. From the first charged step on,
//! nothing removes the folder: its ledger counts against the data.

use damper_budget::PLAN;
use damper_onnx::pb::ModelProto;
use damper_train::files::{
    Access, FileError, MadeFolders, claim_private_folder, create_output_folder, create_private_folder, may_hold_ledger,
    write,
};
use damper_train::write_model;
use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folder for files that are as secret as the data.
const CHECKPOINT: &str = "checkpoint";

/// An output folder in progress.
///
/// If it is dropped before [`keep`](OutputFolder::keep) and before a step was charged, it is removed, with the parents
/// created for it.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    kept: bool,
    /// True if the run charges nothing. It then has a plan and no ledger after its steps have started.
    uncharged: Cell<bool>,
    /// Dropped last, when the folder is empty.
    _made: MadeFolders,
}

impl OutputFolder {
    /// Creates the folder, and the private folder `checkpoint` in it.
    ///
    /// # Errors
    ///
    /// The folder exists and is not empty, is a file, or cannot be created or written.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let made = MadeFolders::for_path(path);
        create_output_folder(path)?;
        claim_private_folder(&path.join(CHECKPOINT))?;
        // From here on, all content of the folder belongs to this run.
        Ok(Self { path: path.to_path_buf(), kept: false, uncharged: Cell::new(false), _made: made })
    }

    /// Returns the folder of a resumed run, which is never removed.
    #[must_use]
    pub fn resume(path: &Path) -> Self {
        let uncharged = Cell::new(false);
        Self { path: path.to_path_buf(), kept: true, uncharged, _made: MadeFolders::for_path(path) }
    }

    /// Returns the folder for files that are as secret as the data.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// Writes a public output.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        write(&self.path.join(name), bytes, Access::Public)
    }

    /// Writes a model as a public output.
    pub fn write_model(&self, name: &str, model: &ModelProto) -> Result<(), FileError> {
        write_model(&self.path.join(name), model, Access::Public)
    }

    /// Returns true if steps may have been charged: the folder has a ledger, or its metadata cannot be read.
    #[must_use]
    pub fn may_hold_ledger(&self) -> bool {
        may_hold_ledger(&self.path)
    }

    /// Marks the run as free of charges: the folder stays once its plan is written.
    pub fn set_uncharged(&self) {
        self.uncharged.set(true);
    }

    /// Returns true if uncharged steps may have been taken: the run charges none, and its plan is written.
    #[must_use]
    pub fn has_uncharged_steps(&self) -> bool {
        self.uncharged.get() && self.checkpoint().join(PLAN).exists()
    }

    /// Ends the run: the folder stays.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

/// Creates a private folder under `out` for the plan and the ledger of another run: `ledgers/NNNN/checkpoint`, which
/// nothing removes. `damper epsilon OUT/ledgers/NNNN` reads it.
///
/// # Errors
///
/// It cannot be created.
pub fn create_ledger_folder(out: &Path) -> Result<PathBuf, FileError> {
    let ledgers = out.join("ledgers");
    create_private_folder(&ledgers)?;
    let failed = |error: io::Error| FileError(format!("{}: {error}; make it readable", ledgers.display()));
    let mut last = 0;
    for entry in fs::read_dir(&ledgers).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        last = last.max(name.to_str().and_then(|name| name.parse::<u32>().ok()).unwrap_or(0));
    }
    // Another run may have taken the next number meanwhile.
    loop {
        last = last.saturating_add(1);
        let run = ledgers.join(format!("{last:04}"));
        match fs::create_dir(&run) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && last < u32::MAX => {}
            made => {
                made.map_err(failed)?;
                let checkpoint = run.join(CHECKPOINT);
                claim_private_folder(&checkpoint)?;
                return Ok(checkpoint);
            }
        }
    }
}

impl Drop for OutputFolder {
    /// An error here is ignored: the user's own message already asks for a fix.
    fn drop(&mut self) {
        if self.kept || self.has_uncharged_steps() || self.may_hold_ledger() {
            return;
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An unfinished folder is removed with the parents that were created for it.
    #[test]
    fn unfinished_folder_removes_its_parents() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let folder = OutputFolder::create(&path).unwrap();
        folder.write("model.onnx", b"half a run").unwrap();
        assert!(folder.checkpoint().is_dir());
        drop(folder);
        assert!(!root.path().join("a").exists() && root.path().exists());
    }

    // An unfinished folder that existed before stays, and is emptied.
    #[test]
    fn unfinished_existing_folder_is_emptied() {
        let root = tempfile::tempdir().unwrap();
        let folder = OutputFolder::create(root.path()).unwrap();
        folder.write("report.json", b"{}").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn ledger_outlives_failed_run() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/run");
        let folder = OutputFolder::create(&path).unwrap();
        fs::write(folder.checkpoint().join("plan.json"), "{}").unwrap();
        assert!(!folder.may_hold_ledger());
        fs::write(folder.checkpoint().join("ledger.json"), "{}").unwrap();
        folder.write("model.onnx", b"half a run").unwrap();
        assert!(folder.may_hold_ledger());
        drop(folder);
        assert!(path.join("checkpoint/ledger.json").exists() && path.join("checkpoint/plan.json").exists());
        let message = OutputFolder::create(&path).unwrap_err().to_string();
        assert!(message.contains("holds the ledger") && !message.contains("remove"), "{message}");
    }

    #[test]
    fn ledger_folders_are_counted() {
        let root = tempfile::tempdir().unwrap();
        for name in ["0001", "0002", "0003"] {
            let made = create_ledger_folder(root.path()).unwrap();
            assert_eq!(made, root.path().join("ledgers").join(name).join("checkpoint"));
            assert!(made.is_dir());
        }
    }

    // If threads start in one folder at once, one gets it, and the ends of the others remove nothing.
    #[test]
    fn a_folder_is_one_runs() {
        let root = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = root.path().join(format!("run-{round}"));
            let start = std::sync::Barrier::new(4);
            let begun = || {
                start.wait();
                let folder = OutputFolder::create(&path).ok()?;
                folder.write("report.json", b"{}").unwrap();
                folder.keep();
                Some(())
            };
            let won = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(begun)).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).count()
            });
            assert!(won <= 1, "{won}");
            assert_eq!(path.join("report.json").exists(), won == 1);
        }
    }

    #[test]
    fn ledgers_of_threads_have_folders_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let mut made: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| create_ledger_folder(root.path()).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 8);
    }

    #[test]
    fn a_folder_that_is_refused_loses_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("mine"), b"1").unwrap();
        assert!(OutputFolder::create(root.path()).is_err());
        assert_eq!(fs::read(root.path().join("mine")).unwrap(), b"1");
    }

    #[test]
    fn a_finished_folder_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let folder = OutputFolder::create(&path).unwrap();
        folder.write("report.json", b"{}").unwrap();
        folder.keep();
        assert_eq!(fs::read(path.join("report.json")).unwrap(), b"{}");
        assert!(path.join("checkpoint").is_dir());
    }
}
