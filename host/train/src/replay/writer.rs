//! Writing a pack: numbers in order, little-endian, digested as they go, as `damper_replay` reads them.

use crate::files::{Access, AtomicFile, FileError};
use damper_core::numerics::CONTRACT;
use damper_core::numerics::digest::Digest;
use damper_replay::grammar::{LONGEST_NAME, MAGIC, VERSION};
use std::io::{self, Write};
use std::path::Path;

/// Bytes of a pack beside its groups and its name.
const FRAME: u64 = MAGIC.len() as u64 + 2 + 4 + 1 + 1 + 8;

/// A private file that becomes a pack. It is there under its name after [`finish`](PackWriter::finish); dropped, it is gone.
///
/// A write that fails is told at the next call that returns a result, and nothing is written after it.
#[derive(Debug)]
pub struct PackWriter {
    file: AtomicFile,
    digest: Digest,
    error: Option<io::Error>,
}

impl PackWriter {
    /// Begins the pack `path` of the set `name`. `setting` named the file.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written.
    pub fn create(path: &Path, setting: &'static str, name: &str) -> Result<Self, FileError> {
        let file = AtomicFile::create_for(path, Access::Private, setting)?;
        let mut pack = Self { file, digest: Digest::default(), error: None };
        pack.bytes(&MAGIC);
        pack.u16(VERSION);
        pack.u32(CONTRACT);
        pack.name(name);
        Ok(pack)
    }

    /// Bytes of a pack whose set has this name and whose groups have `groups` bytes together.
    #[must_use]
    pub fn size(name: &str, groups: u64) -> u64 {
        FRAME.saturating_add(ascii(name).count() as u64).saturating_add(groups)
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.file.write_all(bytes).err();
            self.digest.add_bytes(bytes);
        }
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// The four bytes of a float's bits.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// The eight bytes of a float's bits.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// Floats, one after the other.
    pub fn f32s(&mut self, values: &[f32]) {
        for value in values {
            self.f32(*value);
        }
    }

    /// A name: what a pack can hold of it.
    pub fn name(&mut self, name: &str) {
        let bytes: Vec<u8> = ascii(name).collect();
        self.u8(bytes.len() as u8);
        self.bytes(&bytes);
    }

    /// Whether all of it was written so far.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn check(&self) -> Result<(), FileError> {
        self.error.as_ref().map_or(Ok(()), |error| Err(self.file.failed(error)))
    }

    /// Ends the pack: no further group, and the digest. It appears under its name.
    ///
    /// # Errors
    ///
    /// The disk is full or fails, or failed before; nothing is left of the pack then.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.u8(0);
        self.u64(self.digest.value());
        self.check()?;
        self.file.commit()
    }
}

/// As much of a name as a pack can hold.
fn ascii(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| byte.is_ascii_graphic() || *byte == b' ').take(LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_replay::{Memory, play};

    #[test]
    fn a_pack_is_there_when_it_is_whole_and_is_played() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let name = "a name that is longer than what a pack can hold, \u{e9}";
        let mut pack = PackWriter::create(&path, "record", name).unwrap();
        // A sum of squares: of 3 and 4.
        pack.u8(4);
        pack.name("squares");
        pack.u16(2);
        pack.f32s(&[3.0, 4.0]);
        pack.f32(25.0);
        pack.check().unwrap();
        assert!(!path.exists());
        pack.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, PackWriter::size(name, 1 + 8 + 2 + 12));
        let memory = Memory { floats: &mut [0.0; 2], narrow: &mut [], wide: &mut [], float_sums: &mut [] };
        let mut said = String::new();
        let summary = play(&mut &bytes[..], memory, |line| said += &format!("{line}\n")).unwrap();
        assert_eq!((summary.groups, summary.differ), (1, 0));
        assert_eq!(
            said,
            "set a name that is longer than what a pack c, contract 1\nsquares: 1 values\n1 group, all the same\n"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_pack_is_its_owners_alone_and_one_that_is_dropped_is_gone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let modes = || -> Vec<u32> {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            entries.map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect()
        };
        let pack = PackWriter::create(&path, "record", "set").unwrap();
        assert_eq!(modes(), [0o600]);
        drop(pack);
        assert!(modes().is_empty());
        PackWriter::create(&path, "record", "set").unwrap().finish().unwrap();
        assert_eq!(modes(), [0o600]);
    }

    #[test]
    fn a_pack_that_cannot_be_made_names_its_flag() {
        if !Path::new("/proc/self").exists() {
            damper_testing::skip("proc", "there is no /proc");
            return;
        }
        let error = PackWriter::create(Path::new("/proc/set.pack"), "record", "set").unwrap_err().to_string();
        assert!(error.contains("/proc/set.pack") && !error.contains("`out`"), "{error}");
    }
}
