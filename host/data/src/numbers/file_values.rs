//! Values in an unnamed file, read back by offset.
//!
//! The file disappears when the process ends, in any way. Only its owner can read it. It is as secret as the data.

use crate::DataError;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The storage of values: up to this many bytes of each array in memory, larger arrays in a file in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub memory: u64,
    pub folder: PathBuf,
}

impl Room {
    /// Creates a limit of `memory` bytes, or no limit if not given. Files are created in `folder`, or in the system's
    /// folder for temporary files.
    pub fn new(memory: Option<u64>, folder: Option<&Path>) -> Self {
        // WebAssembly has no folder for temporary files.
        let usual = || if cfg!(target_family = "wasm") { PathBuf::from(".") } else { std::env::temp_dir() };
        let folder = folder.map_or_else(usual, Path::to_path_buf);
        Self { memory: memory.unwrap_or(u64::MAX), folder }
    }

    /// Returns true if `count` values of `width` bytes fit in memory.
    pub fn holds(&self, count: usize, width: usize) -> bool {
        (count as u64).saturating_mul(width as u64) <= self.memory
    }

    /// Creates an unnamed file.
    pub fn file(&self) -> Result<File, DataError> {
        tempfile::tempfile_in(&self.folder).map_err(|error| self.failed(&error))
    }

    /// Returns the error for a file that cannot be created, written or read.
    pub fn failed(&self, error: &io::Error) -> DataError {
        DataError::File(format!(
            "{}: cannot hold the rows beyond `data_memory` ({error}); name a folder with room by `cache`",
            self.folder.display()
        ))
    }
}

/// Little-endian values in a file, or bytes in memory with the same interface.
#[derive(Clone, Debug)]
pub(crate) struct FileValues {
    place: Place,
    len: usize,
    room: Room,
}

#[derive(Clone, Debug)]
enum Place {
    File(Arc<File>),
    Memory(Arc<Vec<u8>>),
}

impl PartialEq for FileValues {
    fn eq(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::File(own), Place::File(other)) => Arc::ptr_eq(own, other),
            (Place::Memory(own), Place::Memory(other)) => own == other,
            _ => false,
        }
    }
}

impl FileValues {
    /// Creates `len` values in a file of `room`.
    pub fn in_file(file: File, len: usize, room: Room) -> Self {
        Self { place: Place::File(Arc::new(file)), len, room }
    }

    /// Creates `len` values from bytes that stay in memory.
    pub fn in_memory(bytes: Vec<u8>, len: usize) -> Self {
        Self { place: Place::Memory(Arc::new(bytes)), len, room: Room::new(None, None) }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Loads `count` parts of `width` bytes each into memory.
    pub fn loaded(&self, width: usize, count: usize, parts: impl Iterator<Item = usize>) -> Result<Self, DataError> {
        let mut bytes = vec![0; width * count];
        for (to, part) in bytes.chunks_exact_mut(width.max(1)).zip(parts) {
            self.read(part as u64 * width as u64, to)?;
        }
        Ok(Self { place: Place::Memory(Arc::new(bytes)), ..self.clone() })
    }

    /// Returns true if the values are in a file.
    pub fn are_in_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Returns the parts of `width` bytes each, if they are in memory, so that the others can be freed.
    pub fn selected(&self, width: usize, parts: impl Iterator<Item = usize>) -> Option<Self> {
        let Place::Memory(bytes) = &self.place else { return None };
        let bytes: Vec<u8> = parts.flat_map(|part| &bytes[part * width..][..width]).copied().collect();
        Some(Self { place: Place::Memory(Arc::new(bytes)), ..self.clone() })
    }

    /// Fills `bytes` from `offset` on.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DataError> {
        match &self.place {
            Place::File(file) => read_at(file, offset, bytes).map_err(|error| self.room.failed(&error)),
            Place::Memory(all) => {
                bytes.copy_from_slice(&all[offset as usize..][..bytes.len()]);
                Ok(())
            }
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}

// WebAssembly has one thread, so nothing else moves the file's position.
#[cfg(target_family = "wasm")]
fn read_at(mut file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}
