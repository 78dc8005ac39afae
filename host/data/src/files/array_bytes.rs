//! The bytes of an array, read as values. Memory is bounded by what is there.

use crate::DataError;
use crate::numbers::{Element, Room, Sink, Values};
use std::io::{self, Read};

/// Number of elements of `shape`, if it and `width` times it can be counted.
pub(crate) fn elements(shape: &[usize], width: usize) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
    count.checked_mul(width)?;
    Some(count)
}

/// Why values could not be read.
pub(crate) enum Unread {
    /// The number of bytes that were there.
    Short(u64),
    Io(io::Error),
    Data(DataError),
}

/// Reads `count` values of `width` bytes each, which `decode` turns into others.
pub(crate) fn read_values<T: Element>(
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
pub(crate) fn each<const W: usize, T>(bytes: &[u8], value: impl Fn([u8; W]) -> T) -> Vec<T> {
    bytes.as_chunks::<W>().0.iter().map(|bytes| value(*bytes)).collect()
}
