//! Writes a pack: little-endian values in order, with a running digest, in the format that `damper_replay` reads.

use super::part::PartFile;
use crate::state::files::{Access, AtomicFile, FileError, failed};
use damper_core::numerics::CONTRACT;
use damper_core::numerics::digest::Digest;
use damper_core::record::RecordSink;
use damper_replay::grammar::{LONGEST_NAME, MAGIC, VERSION};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of a pack without its groups and its name.
const FRAME: u64 = MAGIC.len() as u64 + 2 + 4 + 1 + 1 + 8;

/// Bytes after the groups: the end marker and the digest.
const TRAILER: u64 = 9;

/// A private file that becomes a pack. It gets its name in [`finish`](PackWriter::finish).
///
/// The next call that returns a result reports a failed write. Nothing is written after a failure.
#[derive(Debug)]
pub struct PackWriter {
    to: Target,
    digest: Digest,
    error: Option<io::Error>,
}

#[derive(Debug)]
enum Target {
    /// The beginning, before the file exists.
    Memory(Zeroizing<Vec<u8>>),
    /// Removed on drop.
    Whole(AtomicFile),
    /// Kept on drop, to be continued.
    Part(PartFile),
}

/// The state of a pack that another process began.
#[derive(Debug)]
pub enum PackProgress {
    /// The requested length, after which the pack continues.
    Part(PackWriter),
    /// The complete pack, under its name.
    Whole,
    /// No usable pack, with the reason.
    None(&'static str),
}

impl RecordSink for PackWriter {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }
}

impl PackWriter {
    /// Begins a pack of the set `name` in memory, with a capacity of `capacity` bytes.
    #[must_use]
    pub fn new(name: &str, capacity: usize) -> Self {
        let to = Target::Memory(Zeroizing::new(Vec::with_capacity(capacity)));
        let mut pack = Self { to, digest: Digest::default(), error: None };
        pack.bytes(&MAGIC);
        pack.u16(VERSION);
        pack.u32(CONTRACT);
        pack.name(name);
        pack
    }

    /// Moves the pack from memory to the file `path`, from the setting `setting`. Dropping the writer removes the file.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written.
    pub fn into_file(self, path: &Path, setting: &'static str) -> Result<Self, FileError> {
        let file = AtomicFile::create_for(path, Access::Private, setting)?;
        Ok(self.moved_to(Target::Whole(file)))
    }

    /// Does the same as [`into_file`](Self::into_file), for a file that can be continued.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written, or such a file exists.
    pub fn into_part(self, path: &Path, setting: &'static str) -> Result<Self, FileError> {
        let file = PartFile::create(path, setting)?;
        Ok(self.moved_to(Target::Part(file)))
    }

    fn moved_to(self, to: Target) -> Self {
        let beginning = match &self.to {
            Target::Memory(bytes) => bytes.clone(),
            _ => Zeroizing::default(),
        };
        let mut pack = Self { to, digest: Digest::default(), error: self.error };
        pack.bytes(&beginning);
        pack
    }

    /// Continues the pack that another process began with the same beginning, after its first `len` bytes, or after the
    /// beginning if `len` is `None`.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn resume(self, path: &Path, setting: &'static str, len: Option<u64>) -> Result<PackProgress, FileError> {
        let Target::Memory(beginning) = &self.to else { return Ok(PackProgress::None("it has begun already")) };
        let Some(mut file) = PartFile::open(path, setting)? else {
            let whole = is_whole(path, beginning).map_err(|error| failed(path, setting, &error))?;
            return match (whole, len) {
                (true, _) => Ok(PackProgress::Whole),
                (false, None) => Ok(PackProgress::Part(self.into_part(path, setting)?)),
                (false, Some(_)) => Ok(PackProgress::None("it is no longer there")),
            };
        };
        let mut digest = Digest::default();
        let read = file.reader().and_then(|mut reader| {
            let found = starts_with(&mut reader, beginning)?;
            digest.add_bytes(beginning);
            let rest = len.map_or(0, |len| len.saturating_sub(beginning.len() as u64));
            Ok((found, found == Some(beginning.len()) && add(&mut digest, &mut reader.take(rest))? == rest))
        });
        let (found, is_there) = read.map_err(|error| file.failed(&error))?;
        let cut = match (len, is_there) {
            (Some(len), true) => len,
            (None, true) => beginning.len() as u64,
            // The other process was killed before the beginning was written.
            (None, false) if found.is_some_and(|found| found < beginning.len()) => 0,
            _ => return Ok(PackProgress::None("it is of another run, or was cut")),
        };
        file.cut(cut).map_err(|error| file.failed(&error))?;
        if cut == 0 {
            return Ok(PackProgress::Part(self.moved_to(Target::Part(file))));
        }
        Ok(PackProgress::Part(Self { to: Target::Part(file), digest, error: None }))
    }

    /// Returns true if the part of the file `path` exists and begins like this pack, which is in memory.
    pub fn owns_part(&self, path: &Path, setting: &'static str) -> bool {
        let Target::Memory(beginning) = &self.to else { return false };
        let Ok(Some(file)) = PartFile::open(path, setting) else { return false };
        file.reader().and_then(|mut reader| starts_with(&mut reader, beginning)).is_ok_and(|found| found.is_some())
    }

    /// Syncs and returns the number of bytes so far. Returns `None` if the file is removed when the process ends.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn sync(&mut self) -> Result<Option<u64>, FileError> {
        self.check()?;
        match &mut self.to {
            Target::Part(file) => file.sync().map(Some).map_err(|error| file.failed(&error)),
            Target::Memory(_) | Target::Whole(_) => Ok(None),
        }
    }

    /// Returns the size in bytes of a pack with this set name and `groups` bytes of groups.
    #[must_use]
    pub fn size(name: &str, groups: u64) -> u64 {
        FRAME.saturating_add(ascii(name).count() as u64).saturating_add(groups)
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            let written = match &mut self.to {
                Target::Memory(memory) => memory.write_all(bytes),
                Target::Whole(file) => file.write_all(bytes),
                Target::Part(file) => file.write_all(bytes),
            };
            self.error = written.err();
            self.digest.add_bytes(bytes);
        }
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Writes two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes the four bytes of a float.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// Writes the eight bytes of a float.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// Writes floats in sequence.
    pub fn f32s(&mut self, values: &[f32]) {
        for value in values {
            self.f32(*value);
        }
    }

    /// Writes a name, reduced to the characters and length that a pack allows.
    pub fn name(&mut self, name: &str) {
        let bytes: Vec<u8> = ascii(name).collect();
        self.u8(bytes.len() as u8);
        self.bytes(&bytes);
    }

    /// Returns an error if any write so far failed.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn check(&self) -> Result<(), FileError> {
        match (&self.error, &self.to) {
            (None, _) | (_, Target::Memory(_)) => Ok(()),
            (Some(error), Target::Whole(file)) => Err(file.failed(error)),
            (Some(error), Target::Part(file)) => Err(file.failed(error)),
        }
    }

    /// Ends the pack with the end marker and the digest, and gives the file its name.
    ///
    /// # Errors
    ///
    /// The disk is full or fails, or failed before. The pack is then removed.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.u8(0);
        self.u64(self.digest.value());
        self.check()?;
        match self.to {
            Target::Memory(_) => Ok(()),
            Target::Whole(file) => file.commit(),
            Target::Part(file) => file.commit(),
        }
    }
}

/// Returns the number of bytes of `reader` that match `beginning`, which is smaller if the reader ends. Returns `None`
/// if they differ.
fn starts_with(reader: &mut impl Read, beginning: &[u8]) -> io::Result<Option<usize>> {
    let mut found = Zeroizing::new(Vec::with_capacity(beginning.len()));
    reader.take(beginning.len() as u64).read_to_end(&mut found)?;
    Ok(beginning.starts_with(&found).then_some(found.len()))
}

/// Digests the rest of `reader`. Returns its length.
fn add(digest: &mut Digest, reader: &mut impl Read) -> io::Result<u64> {
    let (mut buffer, mut len) = (vec![0; 1 << 16], 0);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(len),
            read => {
                digest.add_bytes(&buffer[..read]);
                len += read as u64;
            }
        }
    }
}

/// Returns true if `path` is a complete pack with this beginning and a valid digest.
fn is_whole(path: &Path, beginning: &[u8]) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let len = file.metadata()?.len();
    if len < beginning.len() as u64 + TRAILER {
        return Ok(false);
    }
    let (mut reader, mut digest, mut last) = (BufReader::new(file), Digest::default(), [0; 8]);
    if starts_with(&mut reader, beginning)? != Some(beginning.len()) {
        return Ok(false);
    }
    digest.add_bytes(beginning);
    add(&mut digest, &mut reader.by_ref().take(len - 8 - beginning.len() as u64))?;
    reader.read_exact(&mut last)?;
    Ok(u64::from_le_bytes(last) == digest.value())
}

/// Returns the part of a name that a pack can store.
fn ascii(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| byte.is_ascii_graphic() || *byte == b' ').take(LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_replay::{Memory, play};

    // A pack appears when it is complete, and plays.
    #[test]
    fn pack_appears_when_complete_and_plays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let name = "a name that is longer than what a pack can hold, \u{e9}";
        let mut pack = PackWriter::new(name, 0).into_file(&path, "record").unwrap();
        // The sum of squares of 3 and 4.
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
        let memory =
            Memory { floats: &mut [0.0; 2], narrow: &mut [], wide: &mut [], float_sums: &mut [], noise: &mut [] };
        let mut said = String::new();
        let summary = play(&mut &bytes[..], memory, |line| said += &format!("{line}\n")).unwrap();
        assert_eq!((summary.groups, summary.differ), (1, 0));
        assert_eq!(
            said,
            "set a name that is longer than what a pack c, contract 3\nsquares: 1 values\n1 group, all the same\n"
        );
    }

    // Only the owner can read a pack. A dropped pack is removed.
    #[cfg(unix)]
    #[test]
    fn pack_is_owner_only_and_removed_on_drop() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let modes = || -> Vec<u32> {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            entries.map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect()
        };
        let pack = PackWriter::new("set", 0).into_file(&path, "record").unwrap();
        assert_eq!(modes(), [0o600]);
        drop(pack);
        assert!(modes().is_empty());
        PackWriter::new("set", 0).into_file(&path, "record").unwrap().finish().unwrap();
        assert_eq!(modes(), [0o600]);
    }

    // The error for a pack that cannot be written names its path.
    #[test]
    fn unwritable_pack_error_names_path() {
        if !Path::new("/proc/self").exists() {
            damper_testing::skip("proc", "there is no /proc");
            return;
        }
        let error = PackWriter::new("set", 0).into_file(Path::new("/proc/set.pack"), "record").unwrap_err().to_string();
        assert!(error.contains("/proc/set.pack") && !error.contains("`out`"), "{error}");
    }

    /// Writes a group with a length field for its `values`.
    fn add_group(pack: &mut PackWriter, values: &[f32]) {
        pack.u8(4);
        pack.name("squares");
        pack.u16(values.len() as u16);
        pack.f32s(values);
        pack.f32(values.iter().map(|x| x * x).sum());
    }

    fn begun(path: &Path, len: Option<u64>) -> PackProgress {
        PackWriter::new("set", 0).resume(path, "record", len).unwrap()
    }

    #[test]
    fn pack_of_two_processes_is_that_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let mut whole = PackWriter::new("set", 0).into_file(&folder.path().join("whole"), "record").unwrap();
        add_group(&mut whole, &[3.0, 4.0]);
        add_group(&mut whole, &[5.0, 12.0]);
        whole.finish().unwrap();
        let whole = std::fs::read(folder.path().join("whole")).unwrap();
        // Without a file, the pack begins. Bytes written after the state are written again.
        let PackProgress::Part(mut pack) = begun(&path, None) else { panic!() };
        add_group(&mut pack, &[3.0, 4.0]);
        let len = pack.sync().unwrap();
        add_group(&mut pack, &[5.0, 12.0]);
        drop(pack);
        assert!(!path.exists() && super::super::part::part_of(&path).exists());
        let PackProgress::Part(mut pack) = begun(&path, len) else { panic!() };
        add_group(&mut pack, &[5.0, 12.0]);
        pack.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole && !super::super::part::part_of(&path).exists());
        assert!(matches!(begun(&path, len), PackProgress::Whole) && matches!(begun(&path, None), PackProgress::Whole));
    }

    #[test]
    fn foreign_or_cut_part_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.pack");
        let part = super::super::part::part_of(&path);
        assert!(matches!(begun(&path, Some(40)), PackProgress::None("it is no longer there")));
        let mut pack = PackWriter::new("set", 0).into_part(&path, "record").unwrap();
        add_group(&mut pack, &[3.0]);
        let len = pack.sync().unwrap();
        drop(pack);
        let bytes = std::fs::read(&part).unwrap();
        std::fs::write(&part, &bytes[..bytes.len() - 1]).unwrap();
        assert!(matches!(begun(&path, len), PackProgress::None(_)));
        let other = PackWriter::new("sex", 0).resume(&path, "record", None).unwrap();
        assert!(matches!(other, PackProgress::None(_)), "it has another beginning");
        // The process was killed before the whole beginning was written.
        std::fs::write(&part, &bytes[..5]).unwrap();
        let PackProgress::Part(mut pack) = begun(&path, None) else { panic!() };
        add_group(&mut pack, &[3.0]);
        pack.sync().unwrap();
        assert_eq!(std::fs::read(&part).unwrap(), bytes);
        // A new run does not overwrite the file that another run left.
        let message = PackWriter::new("set", 0).into_part(&path, "record").unwrap_err().to_string();
        assert!(message.contains("set.pack"), "{message}");
    }
}
