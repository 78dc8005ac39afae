//! The proved range of the integers of an update. For the proof, each integer is shifted by the least integer of the
//! range.

use crate::PrioError;

/// A range of signed integers, from `-offset` to `largest - offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    offset: i64,
    largest: u128,
}

/// Width of a range in standard deviations of the noise. A coordinate exceeds it with probability below `2·e^-72`.
const ROOM: u64 = 12;

impl Range {
    /// Returns the range of signed integers of `bits` bits, 2 to 32: `[-2^(bits-1), 2^(bits-1))`.
    ///
    /// # Errors
    ///
    /// Another number of bits.
    pub fn new(bits: u32) -> Result<Self, PrioError> {
        let is_valid = (2..=32).contains(&bits);
        is_valid.then(|| Self { offset: 1 << (bits - 1), largest: (1 << bits) - 1 }).ok_or(PrioError::Bits(bits))
    }

    /// Returns the range `[-largest, largest]`. A plan's largest integer gives the range of its updates.
    ///
    /// # Errors
    ///
    /// `largest` is 0.
    pub fn symmetric(largest: u32) -> Result<Self, PrioError> {
        let range = Self { offset: i64::from(largest), largest: 2 * u128::from(largest) };
        if largest == 0 { Err(PrioError::Bits(0)) } else { Ok(range) }
    }

    /// Returns the smallest range of signed integers that holds the sum of `units` contributions and the noise.
    ///
    /// Each contribution is at most `2^grid_bits`. The noise has `sigma` grid units, and counts up to twelve standard
    /// deviations. Returns `None` if that takes more than 32 bits.
    ///
    /// Updates are then out of range with a probability that an accountant can charge (`damper_accounting::tail`),
    /// whatever the data.
    #[must_use]
    pub fn fitting(units: u32, grid_bits: u32, sigma: u32) -> Option<Self> {
        let largest =
            u64::from(units).checked_mul(1u64.checked_shl(grid_bits)?)?.checked_add(ROOM * u64::from(sigma))?;
        let bits = u64::BITS - largest.leading_zeros() + 1;
        Self::new(bits).ok()
    }

    /// Returns the bits of an integer after the offset.
    #[must_use]
    pub fn bits(self) -> u32 {
        u128::BITS - self.largest.leading_zeros()
    }

    /// Returns the largest integer after the offset.
    pub(crate) fn largest(self) -> u128 {
        self.largest
    }

    /// Returns bytes that identify the range.
    pub(crate) fn bytes(self) -> Vec<u8> {
        [&self.offset.to_le_bytes()[..], &self.largest.to_le_bytes()].concat()
    }

    /// Adds the offset to an integer. Returns `None` if it is out of range.
    pub(crate) fn encode(self, units: i64) -> Option<u128> {
        let moved = units.checked_add(self.offset)?;
        u128::try_from(moved).ok().filter(|moved| *moved <= self.largest)
    }

    /// Returns the sum of `count` integers from the sum with their offsets. Returns `None` if no such integers have
    /// this sum.
    pub(crate) fn decode(self, sum: u128, count: u32) -> Option<i64> {
        if sum > self.largest * u128::from(count) {
            return None;
        }
        let offsets = i128::from(self.offset) * i128::from(count);
        i64::try_from(i128::try_from(sum).ok()? - offsets).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_in_range_and_no_more() {
        for bits in [2, 8, 20, 31, 32] {
            let range = Range::new(bits).unwrap();
            let half = 1i64 << (bits - 1);
            for units in [-half, -1, 0, half - 1] {
                assert_eq!(range.decode(range.encode(units).unwrap(), 1), Some(units));
            }
            for units in [-half - 1, half, i64::MIN, i64::MAX] {
                assert_eq!(range.encode(units), None, "{bits} {units}");
            }
        }
        assert!(Range::new(1).is_err() && Range::new(33).is_err());
        for largest in [1, 5, 1 << 20, (1 << 31) - 1, u32::MAX] {
            let (range, edge) = (Range::symmetric(largest).unwrap(), i64::from(largest));
            for units in [-edge, 0, edge] {
                assert_eq!(range.decode(range.encode(units).unwrap(), 1), Some(units));
            }
            assert_eq!((range.encode(edge + 1), range.encode(-edge - 1)), (None, None));
        }
        assert!(Range::symmetric(0).is_err());
    }

    // Sums of the largest and smallest integers of the maximum number of devices do not overflow.
    #[test]
    fn sums_decode_without_overflow() {
        let range = Range::new(32).unwrap();
        let count = u32::MAX;
        assert_eq!(range.decode(0, count), Some(-(1i64 << 31) * i64::from(count)));
        assert_eq!(
            range.decode(range.largest() * u128::from(count), count),
            Some(((1i64 << 31) - 1) * i64::from(count))
        );
        assert_eq!(range.decode(range.largest() * u128::from(count) + 1, count), None);
        assert_eq!(range.decode(u128::MAX, 3), None);
        assert_eq!(range.decode(0, 0), Some(0));
    }

    #[test]
    fn fitting_range_is_the_least() {
        assert_eq!(Range::fitting(1, 8, 0).unwrap().bits(), 10);
        // 100 samples of 2^16 and 12 · 2^17 units are below 2^23.
        assert_eq!(Range::fitting(100, 16, 1 << 17).unwrap().bits(), 24);
        assert_eq!(Range::fitting(1 << 15, 16, 1), None);
        assert_eq!(Range::fitting(u32::MAX, 40, u32::MAX), None);
        assert_eq!(Range::fitting(1, 64, 1), None);
    }
}
