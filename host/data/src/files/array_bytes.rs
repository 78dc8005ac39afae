//! Reads the bytes of an array as values. Memory is bounded by the bytes that exist.

use super::open::{FETCH_AGAIN, read_failed};
use crate::DataError;
use crate::numbers::{Element, Room, Sink, Values};
use std::io::Read;
use std::path::Path;

/// Returns the number of elements of `shape`, unless it or its product with `width` overflows.
pub(crate) fn elements(shape: &[usize], width: usize) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
    count.checked_mul(width)?;
    Some(count)
}

/// The bytes of an array after its header.
pub(crate) struct ArrayBytes<'a> {
    pub reader: &'a mut dyn Read,
    /// The array's name in messages.
    pub origin: &'a str,
    /// The shape that the header declares. Its number of elements does not overflow.
    pub shape: &'a [usize],
    /// Size of an element in bytes.
    pub width: usize,
    pub room: &'a Room,
}

impl ArrayBytes<'_> {
    /// Reads all values. `decode` converts elements to values.
    ///
    /// # Errors
    ///
    /// The number of bytes does not match the shape.
    pub fn values<T: Element>(self, decode: impl Fn(&[u8]) -> Vec<T>) -> Result<Values, DataError> {
        let Self { reader, origin, shape, width, room } = self;
        let refuse = |fault: String| DataError::File(format!("{origin}: {fault}: {FETCH_AGAIN}"));
        let failed = |error| read_failed(Path::new(origin), &error);
        let count = elements(shape, width).unwrap_or(0);
        let (mut sink, mut left, mut bytes) = (Sink::new(room), count, Vec::new());
        while left > 0 {
            let block = left.min(1 << 16);
            bytes.clear();
            let got = reader.take((block * width) as u64).read_to_end(&mut bytes).map_err(failed)?;
            if got < block * width {
                let (got, all) = ((count - left) * width + got, count * width);
                return Err(refuse(format!("is truncated ({got} of {all} bytes of the shape {shape:?})")));
            }
            sink.push(&decode(&bytes))?;
            left -= block;
        }
        // Reading to the end also verifies the checksum of gzip or of an archive.
        match reader.read(&mut [0]).map_err(failed)? {
            0 => sink.values(),
            _ => Err(refuse(format!("goes on after the shape {shape:?} that it declares"))),
        }
    }
}

/// Decodes values of `W` bytes each.
pub(crate) fn each<const W: usize, T>(bytes: &[u8], value: impl Fn([u8; W]) -> T) -> Vec<T> {
    bytes.as_chunks::<W>().0.iter().map(|bytes| value(*bytes)).collect()
}
