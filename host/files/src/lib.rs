//! Files that are whole or absent, private folders, and JSON that holds its own digest ([`sealed`]).
//!
//! A file is written under a temporary name in its own folder, flushed to the disk, and renamed; a failure or a crash
//! on the way leaves the old file, or none. Private files (checkpoints, journals, recordings: as secret as the data)
//! are readable by their owner alone from the moment they exist.

pub mod sealed;

use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Access to a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Covered by ε: what the process's umask allows.
    Public,
    /// As secret as the data: mode 0600.
    Private,
}

/// A file or folder that could not be written: one line that names it and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FileError(pub String);

/// The first letters of the name of a file on its way.
const PREFIX: &str = ".damper-";

/// A file on its way. It exists under its name only after [`commit`](AtomicFile::commit); dropped, it is gone.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    setting: &'static str,
    writer: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Starts writing `path`, whose folder must exist.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written.
    pub fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        Self::create_for(path, access, OUT)
    }

    /// The same for a file that another setting than `out` named.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written.
    pub fn create_for(path: &Path, access: Access, setting: &'static str) -> Result<Self, FileError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        let permissions = permissions(access);
        if let Some(permissions) = permissions {
            builder.permissions(permissions);
        }
        let file = builder.tempfile_in(folder_of(path)).map_err(|error| failed(path, setting, &error))?;
        Ok(Self { path: path.to_path_buf(), setting, writer: BufWriter::new(file) })
    }

    /// Removes what killed processes have left in `folder` of files on their way. None may be on its way there now.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn sweep(folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Makes the file appear under its name, in place of one that is there.
    ///
    /// # Errors
    ///
    /// The disk is full or fails, or the name is taken by a folder. Nothing is left of the new file then.
    pub fn commit(self) -> Result<(), FileError> {
        let path = self.path;
        let commit = || -> io::Result<()> {
            let file = self.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            sync_folder(folder_of(&path))
        };
        commit().map_err(|error| failed(&path, self.setting, &error))
    }

    /// The error for a write to this file that failed.
    pub fn failed(&self, error: &io::Error) -> FileError {
        failed(&self.path, self.setting, error)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
///
/// Those of [`AtomicFile`].
pub fn write(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    write_for(path, bytes, access, OUT)
}

/// The same for a file that another setting than `out` named.
///
/// # Errors
///
/// Those of [`AtomicFile`].
pub fn write_for(path: &Path, bytes: &[u8], access: Access, setting: &'static str) -> Result<(), FileError> {
    let mut file = AtomicFile::create_for(path, access, setting)?;
    // Past the buffer, in which a copy of a key would stay.
    if let Err(error) = file.writer.get_mut().write_all(bytes) {
        return Err(file.failed(&error));
    }
    file.commit()
}

/// Bytes that are written at a time.
const PIECE: usize = 1 << 16;

/// Writes what `produce` hands to its sink to `path`, whole or not at all. No copy of it stays in memory.
///
/// # Errors
///
/// Those of [`AtomicFile`].
pub fn write_pieces(path: &Path, access: Access, produce: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path, access)?;
    let mut piece = Zeroizing::new(Vec::with_capacity(PIECE));
    let mut written = Ok(());
    let raw = file.writer.get_mut();
    produce(&mut |bytes| {
        for bytes in bytes.chunks(PIECE) {
            if piece.len() + bytes.len() > PIECE {
                written = std::mem::replace(&mut written, Ok(())).and_then(|()| raw.write_all(&piece));
                piece.clear();
            }
            piece.extend_from_slice(bytes);
        }
    });
    if let Err(error) = written.and_then(|()| raw.write_all(&piece)) {
        return Err(file.failed(&error));
    }
    file.commit()
}

/// Writes a new file that its owner alone may read. A file that is there is left alone.
///
/// # Errors
///
/// The file is there, or cannot be written.
pub fn create_new_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError(format!("{}: is there already; name another file", path.display())),
        _ => failed(path, "file", &error),
    })?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| sync_folder(folder_of(path)));
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        failed(path, "file", &error)
    })
}

/// A value as JSON in lines, with a last newline.
///
/// # Errors
///
/// Keys of the value are no strings.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}

/// SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// `bytes` in hexadecimal, two digits each.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The 32 bytes of 64 hexadecimal digits.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |at: usize| char::from(text[at]).to_digit(16).unwrap_or_default() as u8;
    Some(std::array::from_fn(|at| digit(2 * at) << 4 | digit(2 * at + 1)))
}

/// The content of `path`; None if there is no such file.
///
/// # Errors
///
/// It cannot be read.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Folders that are about to be made, innermost first. Dropped, those that are empty are gone.
#[derive(Debug)]
pub struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// `path` and the parents of it that are not there yet.
    pub fn for_path(path: &Path) -> Self {
        let absent = |folder: &&Path| !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err();
        Self(path.ancestors().take_while(absent).map(Path::to_path_buf).collect())
    }

    /// Makes the folders survive a power cut, once they are there: each is on the disk once the folder above it is.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn sync(&self) -> io::Result<()> {
        self.0.iter().rev().try_for_each(|folder| sync_folder(folder_of(folder)))
    }

    /// Leaves the folders as they are.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns true unless it is sure that there is no file of this name.
pub fn may_be_there(file: &Path) -> bool {
    match fs::symlink_metadata(file) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        Ok(_) => true,
    }
}

/// Makes a folder that its owner alone can enter (mode 0700), if it is not there. Its parent must exist.
///
/// # Errors
///
/// The folder cannot be made, or its name is taken by a file.
pub fn create_private_folder(path: &Path) -> Result<(), FileError> {
    create_private_folder_for(path, OUT)
}

/// The same for a folder that another setting than `out` named.
///
/// # Errors
///
/// The folder cannot be made, or its name is taken by a file.
pub fn create_private_folder_for(path: &Path, setting: &'static str) -> Result<(), FileError> {
    match make_private_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => restrict(path),
        other => other,
    }
    .and_then(|()| sync_folder(folder_of(path)))
    .map_err(|error| failed(path, setting, &error))
}

/// The same for a folder that must not be there. Of several threads or processes that make it at once, one does.
///
/// # Errors
///
/// The folder is there, or cannot be made.
pub fn claim_private_folder(path: &Path) -> Result<(), FileError> {
    match make_private_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FileError(format!(
            "{}: another run has just begun in this folder: name another `out`",
            folder_of(path).display()
        ))),
        made => made.and_then(|()| sync_folder(folder_of(path))).map_err(|error| failed(path, OUT, &error)),
    }
}

fn make_private_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "the mode is Unix'"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn restrict(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn permissions(access: Access) -> Option<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(fs::Permissions::from_mode(match access {
        Access::Public => 0o666,
        Access::Private => 0o600,
    }))
}

#[cfg(not(unix))]
fn permissions(_: Access) -> Option<fs::Permissions> {
    None
}

/// The folder that `path` is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the entry of `path` in its folder survive a power cut.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path))
}

/// A rename is on the disk once its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The setting that names most files.
const OUT: &str = "out";

/// The error for `path`, which `setting` named, and which cannot be written.
pub fn failed(path: &Path, setting: &str, error: &io::Error) -> FileError {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("free some space or name another `{setting}`")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("change the folder's permissions or name another `{setting}`")
        }
        io::ErrorKind::NotFound => "make its folder first".to_owned(),
        io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            format!("its name, or a folder's on the way, is taken by something else: name another `{setting}`")
        }
        _ => format!("see to the disk or name another `{setting}`"),
    };
    let mut reason = error.to_string();
    // tempfile adds the temporary name, which tells the user nothing.
    if let Some(end) = reason.find(" at path ") {
        reason.truncate(end);
    }
    FileError(format!("{}: cannot be written ({reason}): {remedy}", path.display()))
}

#[cfg(test)]
mod tests;
