//! Shared float arrays, backed by the bytes of a file or of a `TensorProto`. The weights of a large model exist only
//! once in memory.

use std::fmt;
use std::ops::Deref;

use prost::bytes::Bytes;

/// float32 array. Clones share its memory.
#[derive(Clone, Default)]
pub struct Floats(
    /// Native byte order, aligned.
    Bytes,
);

impl Floats {
    /// Floats from little-endian `bytes`. They share the memory of `bytes` if it is aligned. Up to three trailing bytes
    /// are ignored.
    pub fn of_little_endian(bytes: &Bytes) -> Floats {
        let whole = bytes.len() / 4 * 4;
        if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, f32>(&bytes[..whole]).is_ok() {
            return Floats(bytes.slice(..whole));
        }
        bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
    }

    /// Floats as little-endian bytes. They share this memory on a little-endian machine.
    pub fn to_little_endian(&self) -> Bytes {
        if cfg!(target_endian = "little") {
            return self.0.clone();
        }
        self.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

/// Owner of a vector's bytes.
struct Numbers(Vec<f32>);

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl From<Vec<f32>> for Floats {
    fn from(numbers: Vec<f32>) -> Floats {
        Floats(Bytes::from_owner(Numbers(numbers)))
    }
}

impl From<&[f32]> for Floats {
    fn from(numbers: &[f32]) -> Floats {
        numbers.to_vec().into()
    }
}

impl FromIterator<f32> for Floats {
    fn from_iter<I: IntoIterator<Item = f32>>(numbers: I) -> Floats {
        Vec::from_iter(numbers).into()
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // An empty slice may have any address.
        if self.0.is_empty() { &[] } else { bytemuck::cast_slice(&self.0) }
    }
}

impl PartialEq for Floats {
    fn eq(&self, other: &Floats) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Floats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Reads bytes at any address. Shares aligned bytes.
    #[test]
    fn aligned_bytes_are_shared() {
        let numbers = [1.5f32, -2.0, f32::MIN_POSITIVE];
        let bytes: Vec<u8> = std::iter::repeat_n(7u8, 3).chain(numbers.iter().flat_map(|x| x.to_le_bytes())).collect();
        for from in 0..4 {
            let placed = Bytes::from([&vec![0; from][..], &bytes[3..]].concat()).slice(from..);
            let read = Floats::of_little_endian(&placed);
            assert_eq!(*read, numbers);
            let is_aligned = (placed.as_ptr() as usize).is_multiple_of(4) && cfg!(target_endian = "little");
            assert_eq!(read.as_ptr().cast() == placed.as_ptr(), is_aligned);
            assert_eq!(read.to_little_endian(), placed);
        }
        assert!(Floats::default().is_empty());
        assert_eq!(Floats::of_little_endian(&Bytes::from_static(&[0; 3])).len(), 0);
    }
}
