//! The bytes of an array, read as values. Memory is bounded by what is there.

use super::open::{FETCH_AGAIN, read_failed};
use crate::DataError;
use crate::numbers::{Element, Room, Sink, Values};
use std::io::Read;
use std::path::Path;

/// Number of elements of `shape`, if it and `width` times it can be counted.
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
    /// The shape that the header declares, whose elements can be counted.
    pub shape: &'a [usize],
    /// Bytes of an element.
    pub width: usize,
    pub room: &'a Room,
}

impl ArrayBytes<'_> {
    /// Reads all values, which `decode` makes of elements.
    ///
    /// # Errors
    ///
    /// There are fewer bytes than the shape has, or more.
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
        // Reading on to the end also has the checksum of gzip or of an archive compared.
        match reader.read(&mut [0]).map_err(failed)? {
            0 => sink.values(),
            _ => Err(refuse(format!("goes on after the shape {shape:?} that it declares"))),
        }
    }
}

/// Values of `W` bytes each.
pub(crate) fn each<const W: usize, T>(bytes: &[u8], value: impl Fn([u8; W]) -> T) -> Vec<T> {
    bytes.as_chunks::<W>().0.iter().map(|bytes| value(*bytes)).collect()
}
