//! Opens a file, plain or gzipped, with a bound on the number of bytes that it can produce.

use crate::DataError;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// Maximum expansion ratio of deflate.
pub(crate) const DEFLATE_RATIO: u64 = 1032;

/// The fix for a broken file.
pub(crate) const FETCH_AGAIN: &str = "fetch or export the file again";

/// Magic bytes of files in other formats, with the fix.
const OTHER_FORMS: [(&[u8], &str); 6] = [
    (b"BZh", "is compressed by bzip2: unpack it, or use gzip"),
    (b"\xfd7zXZ\x00", "is compressed by xz: unpack it, or use gzip"),
    (b"\x28\xb5\x2f\xfd", "is compressed by Zstandard: unpack it, or use gzip"),
    (b"PK\x03\x04", "is a zip archive: unpack it, or if it is one of arrays use npz"),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
];

/// An open file, with the maximum number of bytes that it can produce.
pub(crate) struct Source {
    pub reader: Box<dyn Read>,
    pub limit: u64,
}

/// Opens `path`. Decompresses it if it begins like a gzip file, regardless of its name.
pub(crate) fn open(path: &Path) -> Result<Source, DataError> {
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

/// Opens `path` and returns its length. An empty file is an error.
pub(crate) fn open_plain(path: &Path) -> Result<(File, u64), DataError> {
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

pub(crate) fn read_failed(path: &Path, error: &io::Error) -> DataError {
    let fault = match error.kind() {
        io::ErrorKind::UnexpectedEof => "is truncated".to_string(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => format!("is corrupt ({error})"),
        _ => format!("cannot be read ({error})"),
    };
    DataError::File(format!("{}: {fault}: {FETCH_AGAIN}", path.display()))
}
