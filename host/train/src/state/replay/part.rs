//! A private file on its way that outlives its process, so that a run that goes on can go on with it.

use crate::state::files::{FileError, failed, sync_folder_of};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that has the name `.damper-NAME.part` until it is whole. Dropped, it stays.
#[derive(Debug)]
pub(super) struct PartFile {
    path: PathBuf,
    part: PathBuf,
    setting: &'static str,
    writer: BufWriter<File>,
    len: u64,
}

/// The end of a part's name.
pub(crate) const END: &str = ".part";

/// The name that `path` has until it is whole.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".damper-{}{END}", path.file_name().unwrap_or_default().to_string_lossy()))
}

impl PartFile {
    /// Begins the part of `path`, which must not be there.
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

    /// Opens the part of `path`, if it is there.
    pub(super) fn open(path: &Path, setting: &'static str) -> Result<Option<Self>, FileError> {
        let part = part_of(path);
        // A copy of it may have another mode.
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

    /// Cuts it to `len` bytes, behind which it goes on.
    pub(super) fn cut(&mut self, len: u64) -> io::Result<()> {
        let file = self.writer.get_mut();
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len))?;
        self.len = len;
        Ok(())
    }

    /// Bytes that are on the disk, all that were written.
    pub(super) fn sync(&mut self) -> io::Result<u64> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        Ok(self.len)
    }

    /// Makes it appear under its name.
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
