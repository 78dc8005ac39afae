//! An `.npz` file with arrays that grow in parallel, so that no array needs memory.
//!
//! The shapes are known before the values, and nothing is compressed, so every byte has a fixed offset. The arrays
//! follow each other, and the central directory is at the end. Checksums are written last.
//!
//! Format: PKWARE's APPNOTE 6.3.10 with the Zip64 fields, and NumPy's `.npy` 1.0 (2.0 for long headers).

use crate::state::files::{AtomicFile, FileError};
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of an entry's header before its name, up to the checksum, and after the name.
const BEFORE_NAME: u64 = 30;
const CRC_AT: u64 = 14;
const EXTRA: u64 = 20;
/// Flag for UTF-8 names.
const UTF8: u16 = 1 << 11;
/// The version that Zip64 needs, 4.5.
const VERSION: u16 = 45;
/// 1 January 1980, the earliest date of the format. A fixed date makes files with equal values equal.
const DATE: u16 = 0x21;
/// Marks a field with its value in the Zip64 fields.
const ELSEWHERE: u32 = u32::MAX;

/// The file, and its arrays in order.
pub(super) struct Archive {
    file: AtomicFile,
    entries: Vec<Entry>,
    /// Offset of the central directory.
    end: u64,
}

struct Entry {
    /// The name, with `.npy`.
    name: String,
    /// Offset of its header.
    start: u64,
    /// Offset of the next value, and of the end.
    next: u64,
    end: u64,
    /// Number of bytes, with the `.npy` header.
    len: u64,
    crc: crc32fast::Hasher,
}

/// A buffer of little-endian fields.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.as_bytes());
        self
    }
}

/// Returns the header of a float32 array of this shape.
fn npy_header(shape: &[usize]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({extents}), }}");
    // Padded so that the values begin at a multiple of 64.
    let padded = |before: usize| (before + text.len() + 1).next_multiple_of(64) - before;
    let start = Bytes(b"\x93NUMPY".to_vec());
    let (start, len) = match u16::try_from(padded(10)) {
        Ok(len) => (Bytes([start.0, vec![1, 0]].concat()).u16(len), usize::from(len)),
        Err(_) => (Bytes([start.0, vec![2, 0]].concat()).u32(padded(12) as u32), padded(12)),
    };
    let whole = start.0.len() + len;
    let mut header = start.text(&text).0;
    header.resize(whole - 1, b' ');
    header.push(b'\n');
    header
}

impl Archive {
    /// Writes the headers of arrays with these names and shapes to `file`.
    pub(super) fn create(file: AtomicFile, arrays: &[(String, Vec<usize>)]) -> Result<Self, FileError> {
        let mut archive = Self { file, entries: vec![], end: 0 };
        archive.begin(arrays).map_err(|error| archive.file.failed(&error))?;
        Ok(archive)
    }

    fn begin(&mut self, arrays: &[(String, Vec<usize>)]) -> io::Result<()> {
        for (name, shape) in arrays {
            let name = format!("{name}.npy");
            let too_long = |_| io::Error::other("the name of a parameter is longer than 65535 bytes");
            let name_len = u16::try_from(name.len()).map_err(too_long)?;
            let header = npy_header(shape);
            let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
            let numbers = shape.iter().try_fold(4u64, |bytes, extent| bytes.checked_mul(*extent as u64));
            let len = numbers.and_then(|bytes| bytes.checked_add(header.len() as u64)).ok_or_else(too_large)?;
            let start = self.end;
            let first = start + BEFORE_NAME + u64::from(name_len) + EXTRA;
            self.end = first.checked_add(len).ok_or_else(too_large)?;

            let local = Bytes::default().u32(0x0403_4b50).u16(VERSION).u16(UTF8).u16(0).u16(0).u16(DATE);
            let local = local.u32(0).u32(ELSEWHERE).u32(ELSEWHERE).u16(name_len).u16(EXTRA as u16).text(&name);
            let local = local.u16(1).u16(EXTRA as u16 - 4).u64(len).u64(len);
            self.file.seek(SeekFrom::Start(start))?;
            self.file.write_all(&local.0)?;
            self.file.write_all(&header)?;
            let mut crc = crc32fast::Hasher::new();
            crc.update(&header);
            self.entries.push(Entry { name, start, next: first + header.len() as u64, end: self.end, len, crc });
        }
        Ok(())
    }

    /// Appends values to array `index`.
    pub(super) fn append(&mut self, index: usize, values: &[f32]) -> Result<(), FileError> {
        let entry = &mut self.entries[index];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(bytes.len() as u64 <= entry.end - entry.next, "an array takes as many numbers as its shape has");
        entry.crc.update(&bytes);
        let at = entry.next;
        entry.next += bytes.len() as u64;
        let written = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(&bytes));
        written.map_err(|error| self.file.failed(&error))
    }

    /// Writes checksums and the central directory, and gives the file its name.
    pub(super) fn commit(mut self) -> Result<(), FileError> {
        assert!(self.entries.iter().all(|entry| entry.next == entry.end), "every array is whole");
        if let Err(error) = self.finish() {
            return Err(self.file.failed(&error));
        }
        self.file.commit()
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut contents = Bytes::default();
        for entry in &self.entries {
            let crc = entry.crc.clone().finalize();
            self.file.seek(SeekFrom::Start(entry.start + CRC_AT))?;
            self.file.write_all(&crc.to_le_bytes())?;
            contents = contents.u32(0x0201_4b50).u16(VERSION).u16(VERSION).u16(UTF8).u16(0).u16(0).u16(DATE).u32(crc);
            contents = contents.u32(ELSEWHERE).u32(ELSEWHERE).u16(entry.name.len() as u16).u16(28).u16(0).u16(0);
            contents = contents.u16(0).u32(0).u32(ELSEWHERE).text(&entry.name);
            contents = contents.u16(1).u16(24).u64(entry.len).u64(entry.len).u64(entry.start);
        }
        let (count, len) = (self.entries.len() as u64, contents.0.len() as u64);
        let end = contents.u32(0x0606_4b50).u64(44).u16(VERSION).u16(VERSION).u32(0).u32(0).u64(count).u64(count);
        let end = end.u64(len).u64(self.end).u32(0x0706_4b50).u32(0).u64(self.end + len).u32(1);
        let end = end.u32(0x0605_4b50).u16(0).u16(0).u16(u16::MAX).u16(u16::MAX).u32(ELSEWHERE).u32(ELSEWHERE).u16(0);
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&end.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::files::Access;
    use std::fs;

    fn write(arrays: &[(String, Vec<usize>)], rows: &[Vec<Vec<f32>>]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let mut archive = Archive::create(AtomicFile::create(&path, Access::Private).unwrap(), arrays).unwrap();
        for row in rows {
            row.iter().enumerate().for_each(|(index, values)| archive.append(index, values).unwrap());
        }
        archive.commit().unwrap();
        fs::read(path).unwrap()
    }

    // Entries have their checksum, their length and their values in order.
    #[test]
    fn rows_of_arrays_lie_together() {
        let arrays = [("grad/é".to_owned(), vec![3, 2]), ("loss".to_owned(), vec![3])];
        let rows: Vec<_> = (0..3u8).map(|i| vec![vec![f32::from(i), 0.5], vec![f32::from(i) + 0.25]]).collect();
        let bytes = write(&arrays, &rows);
        let mut at = 0;
        for (index, (name, _)) in arrays.iter().enumerate() {
            let header = npy_header(&arrays[index].1);
            let numbers: Vec<u8> = rows.iter().flat_map(|row| &row[index]).flat_map(|x| x.to_le_bytes()).collect();
            let data = [header, numbers].concat();
            assert_eq!(bytes[at..][..4], *b"PK\x03\x04");
            assert_eq!(bytes[at + CRC_AT as usize..][..4], crc32fast::hash(&data).to_le_bytes());
            at += (BEFORE_NAME + EXTRA) as usize + name.len() + 4;
            assert_eq!(bytes[at..][..data.len()], data);
            at += data.len();
        }
        assert_eq!(bytes[at..][..4], *b"PK\x01\x02");
    }

    #[test]
    fn npy_header_is_aligned() {
        for shape in [vec![0], vec![1797, 10, 64], vec![usize::MAX; 40], vec![1; 40_000]] {
            let header = npy_header(&shape);
            assert_eq!((header.len() % 64, header.last()), (0, Some(&b'\n')));
            let long = header[6] == 2;
            let start = if long { 12 } else { 10 };
            let len = header[8..start].iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
            assert_eq!((start + len, long), (header.len(), shape.len() == 40_000));
        }
    }
}
