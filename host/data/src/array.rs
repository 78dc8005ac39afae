//! Arrays as files hold them, before they become features or labels; and reading with a bound on memory.

use super::DataError;
use super::values::{Element, Room, Sink, Values};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// Deflate turns one byte into at most this many.
pub(super) const DEFLATE_RATIO: u64 = 1032;

/// The remedy for a broken file.
pub(super) const FETCH_AGAIN: &str = "fetch or export the file again";

/// First bytes of files in other formats, and the remedy.
const OTHER_FORMS: [(&[u8], &str); 6] = [
    (b"BZh", "is compressed by bzip2: unpack it, or use gzip"),
    (b"\xfd7zXZ\x00", "is compressed by xz: unpack it, or use gzip"),
    (b"\x28\xb5\x2f\xfd", "is compressed by Zstandard: unpack it, or use gzip"),
    (b"PK\x03\x04", "is a zip archive: unpack it, or if it is one of arrays use npz"),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
];

/// A row-major array `[N, ...]`.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// Its name in messages: the file, and the array's name if the file holds several.
    pub origin: String,
    pub shape: Vec<usize>,
    pub values: Values,
}

impl Array {
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    pub fn sample_shape(&self) -> &[usize] {
        self.shape.get(1..).unwrap_or(&[])
    }
}

/// A file being read, and how many bytes it can give at most.
pub(super) struct Source {
    pub reader: Box<dyn Read>,
    pub limit: u64,
}

/// Opens `path`; gunzips it if it begins as gzip does, whatever its name.
pub(super) fn open(path: &Path) -> Result<Source, DataError> {
    let (mut file, len) = open_plain(path)?;
    let mut magic = Vec::new();
    file.by_ref().take(6).read_to_end(&mut magic).map_err(|error| read_failed(path, &error))?;
    let gzipped = magic.starts_with(&[0x1f, 0x8b]);
    if let Some((_, fault)) = OTHER_FORMS.iter().find(|(first, _)| magic.starts_with(first)) {
        return Err(DataError::File(format!("{}: {fault}", path.display())));
    }
    file.rewind().map_err(|error| read_failed(path, &error))?;
    let file = BufReader::with_capacity(1 << 16, file);
    Ok(if gzipped {
        Source { reader: Box::new(MultiGzDecoder::new(file)), limit: len.saturating_mul(DEFLATE_RATIO) }
    } else {
        Source { reader: Box::new(file), limit: len }
    })
}

/// Opens `path` and says how long it is. An empty file is refused.
pub(super) fn open_plain(path: &Path) -> Result<(File, u64), DataError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            DataError::File(format!("{}: there is no such file: correct the path", path.display()))
        }
        io::ErrorKind::PermissionDenied => {
            DataError::File(format!("{}: may not be read: change its permissions", path.display()))
        }
        _ => read_failed(path, &error),
    })?;
    let metadata = file.metadata().map_err(|error| read_failed(path, &error))?;
    if metadata.is_dir() {
        return Err(DataError::File(format!("{}: is a folder: name a file in it", path.display())));
    }
    if metadata.len() == 0 {
        return Err(DataError::File(format!("{}: is empty: {FETCH_AGAIN}", path.display())));
    }
    Ok((file, metadata.len()))
}

pub(super) fn read_failed(path: &Path, error: &io::Error) -> DataError {
    let fault = match error.kind() {
        io::ErrorKind::UnexpectedEof => "is truncated".to_string(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => format!("is corrupt ({error})"),
        _ => format!("cannot be read ({error})"),
    };
    DataError::File(format!("{}: {fault}: {FETCH_AGAIN}", path.display()))
}

/// Number of elements of `shape`, if it and `width` times it can be counted.
pub(super) fn elements(shape: &[usize], width: usize) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
    count.checked_mul(width)?;
    Some(count)
}

/// Why values could not be read.
pub(super) enum Unread {
    /// The number of bytes that were there.
    Short(u64),
    Io(io::Error),
    Data(DataError),
}

/// Reads `count` values of `width` bytes each, which `decode` turns into others.
pub(super) fn read_values<T: Element>(
    reader: &mut dyn Read,
    count: usize,
    width: usize,
    room: &Room,
    decode: impl Fn(&[u8]) -> Vec<T>,
) -> Result<Values, Unread> {
    let mut sink = Sink::new(room);
    let (mut left, mut bytes) = (count, Vec::new());
    while left > 0 {
        let block = left.min(1 << 16);
        bytes.clear();
        let want = (block * width) as u64;
        let got = reader.take(want).read_to_end(&mut bytes).map_err(Unread::Io)? as u64;
        if got < want {
            return Err(Unread::Short(((count - left) * width) as u64 + got));
        }
        sink.push(&decode(&bytes)).map_err(Unread::Data)?;
        left -= block;
    }
    sink.finish().map_err(Unread::Data)
}

/// Values of `W` bytes each.
pub(super) fn each<const W: usize, T>(bytes: &[u8], value: impl Fn([u8; W]) -> T) -> Vec<T> {
    bytes.as_chunks::<W>().0.iter().map(|bytes| value(*bytes)).collect()
}
