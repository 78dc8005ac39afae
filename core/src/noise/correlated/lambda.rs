//! Correlation with the previous step: `c_j = λ^j`, `w_t = z_t − λz_{t−1}` (arXiv 2601.22334). No buffers: z_{t−1} is
//! drawn again from its address.

use super::correlation::Correlation;
use super::word::NoiseWord;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;
use crate::numerics::up::{div_up, next_up};

/// λ = P/2^q.
///
/// ```
/// use damper_core::noise::Lambda;
///
/// let lambda = Lambda::new(15, 4)?;
/// assert_eq!((lambda.value(), lambda.fraction()), (0.9375, (15, 16)));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lambda {
    numerator: u32,
    bits: u32,
}

impl Lambda {
    /// Creates λ = `numerator / 2^bits`. For `15/16`, pass 15 and 4.
    ///
    /// # Errors
    ///
    /// Fails unless λ is above 0 and below 1, and `bits` from 1 to 16.
    pub const fn new(numerator: u32, bits: u32) -> Result<Self, ConfigError> {
        if bits == 0 || bits > 16 || numerator == 0 || numerator >> bits != 0 {
            return Err(ConfigError::new("lambda", "P/2^q, above 0 and below 1, q from 1 to 16"));
        }
        Ok(Self { numerator, bits })
    }

    /// Returns P and `2^q`.
    #[must_use]
    pub fn fraction(&self) -> (u32, u32) {
        (self.numerator, 1 << self.bits)
    }

    /// Returns λ exactly.
    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from(self.numerator) / f64::from(1u32 << self.bits)
    }
}

impl Sealed for Lambda {}

impl Correlation for Lambda {
    type Line = f64;
    const START: f64 = 0.0;
    const DRAWS_AGAIN: bool = true;

    #[inline(always)]
    fn words(&self) -> usize {
        0
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(3);
        digest.add_word(u64::from(self.numerator) << 32 | u64::from(self.bits));
    }

    fn forward(&self, line: &mut f64, x: f64) -> f64 {
        *line = self.value() * *line + x;
        *line
    }

    fn backward(&self, line: &mut f64, x: f64) -> f64 {
        let entry = x - self.value() * *line;
        *line = x;
        entry
    }

    /// Returns `min(n, 1/(1−λ))`, rounded up, which bounds `Σ_{j<n} λ^j`.
    fn rounding(&self, steps: u32) -> f64 {
        let whole = 1u32 << self.bits;
        let all = div_up(f64::from(whole), f64::from(whole - self.numerator));
        if all < f64::from(steps) { all } else { next_up(f64::from(steps)) }
    }

    fn fits(&self, _steps: u32, largest: f64) -> bool {
        largest < (1u64 << 45) as f64
    }

    #[inline(always)]
    fn correlate(&self, z: i64, before: i64, _age: u32, _buffers: &mut [NoiseWord]) -> i64 {
        // No overflow: |z| is below 2³⁶ and the numerator below 2¹⁶.
        let half = 1i64 << (self.bits - 1);
        z.wrapping_sub(i64::from(self.numerator).wrapping_mul(before).wrapping_add(half) >> self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_outside_zero_to_one_are_refused() {
        for (numerator, bits) in [(0, 4), (16, 4), (1, 0), (1, 17)] {
            assert!(Lambda::new(numerator, bits).is_err());
        }
        assert_eq!(Lambda::new(15, 4).unwrap().value(), 0.9375);
    }

    // λ = 1/2 of an odd number is a tie, rounded up before the subtraction.
    #[test]
    fn noise_before_is_taken_off() {
        let lambda = Lambda::new(1, 1).unwrap();
        assert_eq!(lambda.correlate(10, 5, 1, &mut []), 7);
        assert_eq!(lambda.correlate(10, -5, 1, &mut []), 12);
        assert_eq!(lambda.correlate(10, 0, 0, &mut []), 10);
    }
}
