//! Reader of `.npz` files.

use npyz::NpyFile;
use std::fs::File;
use std::io;
use std::path::Path;
use zip::ZipArchive;
use zip::read::ZipFile;

/// An `.npz` file.
pub struct NpzArchive(ZipArchive<File>);

impl NpzArchive {
    /// Opens a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(ZipArchive::new(File::open(path)?)?))
    }

    /// Returns the names of the arrays.
    pub fn array_names(&self) -> impl Iterator<Item = String> {
        self.0.file_names().flatten().filter_map(|name| name.strip_suffix(".npy").map(str::to_owned))
    }

    /// Returns an array, or `None` if the name does not exist.
    pub fn by_name(&mut self, name: &str) -> io::Result<Option<NpyFile<ZipFile<'_, File>>>> {
        match self.0.index_for_name(&format!("{name}.npy")) {
            Some(index) => NpyFile::new(self.0.by_index(index)?).map(Some),
            None => Ok(None),
        }
    }
}
