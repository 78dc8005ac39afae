//! Atomic files, private folders, and JSON with its own digest ([`sealed`]).
//!
//! A file is written under a temporary name in its own folder, synced, and renamed. A failure or a crash before the
//! rename leaves the old file, or none. Private files (checkpoints, journals, recordings, which are as secret as the
//! data) are readable by their owner alone from their creation.

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
    /// Covered by ε. The mode follows the process's umask.
    Public,
    /// As secret as the data, with mode 0600.
    Private,
}

/// The error of a file or folder that could not be written: one line with its name and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FileError(pub String);

/// Prefix of the name of an unfinished file.
const PREFIX: &str = ".damper-";

/// An unfinished file. It gets its name in [`commit`](AtomicFile::commit). Dropping it removes it.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    setting: &'static str,
    writer: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Starts writing `path`. Its folder must exist.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written.
    pub fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        Self::create_for(path, access, OUT)
    }

    /// Does the same for a file from another setting than `out`.
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

    /// Removes unfinished files that killed processes left in `folder`. No file may be in progress there.
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

    /// Renames the file to its final name, replacing an existing file.
    ///
    /// # Errors
    ///
    /// The disk is full or fails, or the name belongs to a folder. The new file is then removed.
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

    /// Returns the error for a failed write to this file.
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

/// Writes `bytes` to `path` atomically.
///
/// # Errors
///
/// Those of [`AtomicFile`].
pub fn write(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    write_for(path, bytes, access, OUT)
}

/// Does the same for a file from another setting than `out`.
///
/// # Errors
///
/// Those of [`AtomicFile`].
pub fn write_for(path: &Path, bytes: &[u8], access: Access, setting: &'static str) -> Result<(), FileError> {
    let mut file = AtomicFile::create_for(path, access, setting)?;
    // Bypasses the buffer, which would keep a copy of a key.
    if let Err(error) = file.writer.get_mut().write_all(bytes) {
        return Err(file.failed(&error));
    }
    file.commit()
}

/// Number of bytes written at a time.
const PIECE: usize = 1 << 16;

/// Writes the output of `produce` to `path` atomically. Does not keep a copy in memory.
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

/// Writes a new file that only its owner may read. An existing file is not changed.
///
/// # Errors
///
/// The file exists, or cannot be written.
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

/// Formats a value as indented JSON with a final newline.
///
/// # Errors
///
/// A key in the value is not a string.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}

/// Returns the SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// Formats `bytes` in hexadecimal, two digits each.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 64 hexadecimal digits to 32 bytes.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |at: usize| char::from(text[at]).to_digit(16).unwrap_or_default() as u8;
    Some(std::array::from_fn(|at| digit(2 * at) << 4 | digit(2 * at + 1)))
}

/// Returns the content of `path`, or `None` if the file does not exist.
///
/// # Errors
///
/// The file cannot be read.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Folders to be created, innermost first. Dropping it removes those that are empty.
#[derive(Debug)]
pub struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Returns `path` and its missing parents.
    pub fn for_path(path: &Path) -> Self {
        let absent = |folder: &&Path| !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err();
        Self(path.ancestors().take_while(absent).map(Path::to_path_buf).collect())
    }

    /// Makes the created folders durable. A folder is durable after its parent is synced.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn sync(&self) -> io::Result<()> {
        self.0.iter().rev().try_for_each(|folder| sync_folder(folder_of(folder)))
    }

    /// Keeps the folders.
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

/// Returns false only if the file certainly does not exist.
pub fn may_be_there(file: &Path) -> bool {
    match fs::symlink_metadata(file) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        Ok(_) => true,
    }
}

/// Creates a folder that only its owner can enter (mode 0700), if it does not exist. Its parent must exist.
///
/// # Errors
///
/// The folder cannot be created, or a file has its name.
pub fn create_private_folder(path: &Path) -> Result<(), FileError> {
    create_private_folder_for(path, OUT)
}

/// Does the same for a folder from another setting than `out`.
///
/// # Errors
///
/// The folder cannot be created, or a file has its name.
pub fn create_private_folder_for(path: &Path, setting: &'static str) -> Result<(), FileError> {
    match make_private_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => restrict(path),
        other => other,
    }
    .and_then(|()| sync_folder(folder_of(path)))
    .map_err(|error| failed(path, setting, &error))
}

/// Does the same for a folder that must not exist. If several threads or processes try at once, only one succeeds.
///
/// # Errors
///
/// The folder exists, or cannot be created.
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

/// Returns the folder of `path`.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the entry of `path` in its folder durable.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path))
}

/// Syncs a folder. A rename is durable after its folder is synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The setting of most file paths.
const OUT: &str = "out";

/// Returns the error for `path` from `setting`, which cannot be written.
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
    // tempfile appends the temporary name, which does not help the user.
    if let Some(end) = reason.find(" at path ") {
        reason.truncate(end);
    }
    FileError(format!("{}: cannot be written ({reason}): {remedy}", path.display()))
}

#[cfg(test)]
mod tests;
