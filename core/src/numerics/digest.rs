//! A digest of bits, to locate the step at which two runs diverge: FNV-1a, 64 bits, over little-endian bytes.
//!
//! It detects differences and does not authenticate.
//!
//! # Numerics
//!
//! The bits of a NaN differ between processors, so every NaN is digested as `7fc00000`. The values of a run are never
//! NaN.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Digest of the values added so far, in order.
///
/// ```
/// use damper_core::numerics::digest::Digest;
///
/// let mut digest = Digest::default();
/// digest.add_f32s(&[0.5]);
/// digest.add_f64(0.25);
/// digest.add_word(7);
/// let mut bytes = Digest::of(&[0.5]);
/// bytes.add_bytes(&0.25f64.to_le_bytes());
/// bytes.add_bytes(&7u64.to_le_bytes());
/// assert_eq!(digest, bytes);
/// // FNV-1a of one byte.
/// let mut digest = Digest::default();
/// digest.add_bytes(b"a");
/// assert_eq!(digest.value(), 0xaf63_dc4c_8601_ec8c);
/// assert_eq!((digest.folded(), digest.folded_twice()), (0x2962_30c0, 0x19a2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Digest {
    /// Returns the digest of `values` (`[D]`).
    #[must_use]
    pub fn of(values: &[f32]) -> Self {
        let mut digest = Self::default();
        digest.add_f32s(values);
        digest
    }

    /// Adds bytes.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Adds floats, four bytes each.
    pub fn add_f32s(&mut self, values: &[f32]) {
        for value in values {
            let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
            self.add_bytes(&bits.to_le_bytes());
        }
    }

    /// Adds a number that is not NaN, as eight bytes.
    pub fn add_f64(&mut self, value: f64) {
        self.add_bytes(&value.to_bits().to_le_bytes());
    }

    /// Adds an integer, as eight bytes. Not inlined, because fingerprints add many.
    #[inline(never)]
    pub fn add_word(&mut self, word: u64) {
        self.add_bytes(&word.to_le_bytes());
    }

    /// Adds each word, as [`add_word`](Self::add_word) does.
    #[inline]
    pub(crate) fn add_words<const N: usize>(&mut self, words: [u64; N]) {
        self.add_bytes(words.map(u64::to_le_bytes).as_flattened());
    }

    /// Returns all 64 bits.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }

    /// Returns 32 bits: the exclusive or of both halves.
    #[must_use]
    pub fn folded(self) -> u32 {
        (self.0 >> 32) as u32 ^ self.0 as u32
    }

    /// Returns 16 bits: the exclusive or of both halves of the 32 bits.
    #[must_use]
    pub fn folded_twice(self) -> u16 {
        (self.folded() >> 16) as u16 ^ self.folded() as u16
    }
}

/// Digest of a filter or an optimizer with state `S`, to compare two runs. It is a function of released values.
///
/// ```
/// use damper_core::numerics::digest::{Digest, Digested as _};
/// use damper_core::optimizer::{Sgd, SgdState};
///
/// let digest = |momentum| {
///     let mut digest = Digest::default();
///     Sgd::new(0.9, false, 0.0).unwrap().add_to(&SgdState { momentum }, &mut digest);
///     digest
/// };
/// assert!(digest([0.1, 0.2]) != digest([0.1, 0.3]));
/// ```
pub trait Digested<S: ?Sized> {
    /// Adds everything that the coming steps depend on.
    fn add_to(&self, state: &S, digest: &mut Digest);
}

#[cfg(test)]
mod tests {
    use super::*;

    // The digest is FNV-1a over the bytes in order.
    #[test]
    fn digest_is_fnv_1a_of_bytes() {
        // Computed by another program, from the bytes of "" and "foobarfo".
        assert_eq!(Digest::of(&[]).value(), 0xcbf2_9ce4_8422_2325);
        let floats = Digest::of(&[f32::from_le_bytes(*b"foob"), f32::from_le_bytes(*b"arfo")]);
        assert_eq!(floats.value(), 0x7396_e6eb_4e20_40df);
        assert_eq!(floats.folded(), 0x7396_e6eb ^ 0x4e20_40df);
        assert_eq!(floats.folded_twice(), 0x7396 ^ 0xe6eb ^ 0x4e20 ^ 0x40df);
        let (mut bytes, mut wide) = (Digest::default(), Digest::default());
        bytes.add_bytes(b"foobarfo");
        wide.add_f64(f64::from_le_bytes(*b"foobarfo"));
        assert_eq!((bytes, wide), (floats, floats));
    }

    #[test]
    fn every_nan_has_one_digest() {
        let nans = [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001].map(|bits| Digest::of(&[f32::from_bits(bits)]));
        assert!(nans.iter().all(|digest| *digest == nans[0]));
    }
}
