//! A private file in progress that outlives its process, so that a resumed run can continue it.

use crate::state::files::{FileError, failed, sync_folder_of};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file with the name `.damper-NAME.part` until it is complete. It stays on disk when dropped.
#[derive(Debug)]
pub(super) struct PartFile {
    path: PathBuf,
    part: PathBuf,
    setting: &'static str,
    writer: BufWriter<File>,
    len: u64,
}

/// The suffix of a part's name.
pub(crate) const END: &str = ".part";

/// Returns the name of `path` until it is complete.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".damper-{}{END}", path.file_name().unwrap_or_default().to_string_lossy()))
}

impl PartFile {
    /// Creates the part of `path`, which must not exist.
    pub(super) fn create(path: &Path, setting: &'static str) -> Result<Self, FileError> {
        let part = part_of(path);
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&part).and_then(|file| sync_folder_of(&part).map(|()| file));
        let file = file.map_err(|error| failed(path, setting, &error))?;
        Ok(Self { path: path.into(), part, setting, writer: BufWriter::new(file), len: 0 })
    }

    /// Opens the part of `path`, if it exists.
    pub(super) fn open(path: &Path, setting: &'static str) -> Result<Option<Self>, FileError> {
        let part = part_of(path);
        // A copied file may have another mode.
        let open = || -> io::Result<File> {
            let file = File::options().read(true).write(true).open(&part)?;
            #[cfg(unix)]
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(Some(Self { path: path.into(), part, setting, writer: BufWriter::new(file), len: 0 })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path, setting, &error)),
        }
    }

    /// Reads the part from its start.
    pub(super) fn reader(&self) -> io::Result<impl Read + '_> {
        let mut file = self.writer.get_ref();
        file.rewind()?;
        Ok(io::BufReader::with_capacity(1 << 16, file))
    }

    /// Truncates it to `len` bytes and continues from there.
    pub(super) fn cut(&mut self, len: u64) -> io::Result<()> {
        let file = self.writer.get_mut();
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len))?;
        self.len = len;
        Ok(())
    }

    /// Syncs everything written, and returns its size in bytes.
    pub(super) fn sync(&mut self) -> io::Result<u64> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        Ok(self.len)
    }

    /// Renames it to its final name.
    pub(super) fn commit(mut self) -> Result<(), FileError> {
        let whole = self.sync().and_then(|_| fs::rename(&self.part, &self.path));
        let whole = whole.and_then(|()| sync_folder_of(&self.path));
        whole.map_err(|error| self.failed(&error))
    }

    pub(super) fn failed(&self, error: &io::Error) -> FileError {
        failed(&self.path, self.setting, error)
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
