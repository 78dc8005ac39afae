//! Banded Toeplitz correlation (arXiv 2306.08153): P free coefficients `1 = c_0 ≥ c_1 ≥ … ≥ c_{P−1} > 0`.

use super::correlation::Correlation;
use super::exact::{Products, UNIT, rounded_down};
use super::word::NoiseWord;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

/// P coefficients as integers over 2³⁰.
///
/// ```
/// use damper_core::noise::Banded;
///
/// assert_eq!(Banded::new([1.0, 0.5, 0.25])?.column(), [1.0, 0.5, 0.25]);
/// assert!(Banded::new([1.0, 0.25, 0.5]).is_err(), "coefficients must not increase");
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Banded<const P: usize> {
    column: [u32; P],
}

impl<const P: usize> Banded<P> {
    /// Creates bands from `c_0 = 1, c_1, …`, rounded down to multiples of 2⁻³⁰.
    ///
    /// # Errors
    ///
    /// Fails if P is not from 2 to 256, or the first coefficient is not 1. Each coefficient must be above 0 and not
    /// above the previous coefficient.
    pub fn new(column: [f64; P]) -> Result<Self, ConfigError> {
        let mut units = [0; P];
        read(&column, &mut units)?;
        Ok(Self { column: units })
    }

    /// Returns the coefficients after rounding.
    #[must_use]
    pub fn column(&self) -> [f64; P] {
        self.column.map(number)
    }
}

/// Largest number of bands.
pub(super) const MOST: usize = 256;

/// Writes the coefficients to `units`, as integers over 2³⁰, rounded down. `units` must have space for them.
pub(super) fn read(column: &[f64], units: &mut [u32]) -> Result<(), ConfigError> {
    const RANGE: ConfigError =
        ConfigError::new("bands", "2 to 256 coefficients that start with 1, do not increase and are above 0");
    if !(2..=MOST).contains(&column.len()) || column.len() > units.len() || column.first() != Some(&1.0) {
        return Err(RANGE);
    }
    let mut before = 1u32 << UNIT;
    for (units, entry) in units.iter_mut().zip(column) {
        *units = rounded_down(*entry).filter(|entry| (1..=before).contains(entry)).ok_or(RANGE)?;
        before = *units;
    }
    Ok(())
}

/// Returns a coefficient as a number.
pub(super) fn number(units: u32) -> f64 {
    f64::from(units) / f64::from(1u32 << UNIT)
}

/// Shifts the values by one and stores `x` first.
fn push(line: &mut [f64], x: f64) {
    line.rotate_right(1);
    if let Some(first) = line.first_mut() {
        *first = x;
    }
}

/// [`Correlation::fits`] of bands. Their [`Correlation::rounding`] is 1.
pub(super) fn fits(largest: f64) -> bool {
    largest < (1u64 << 45) as f64
}

/// [`Correlation::add_to`] of these coefficients.
pub(super) fn add_to(column: &[u32], digest: &mut Digest) {
    digest.add_word(2);
    column.iter().for_each(|unit| digest.add_word((*unit).into()));
}

/// [`Correlation::forward`] of these coefficients. `line` has the last numbers, latest first.
pub(super) fn forward(column: &[u32], line: &mut [f64], x: f64) -> f64 {
    push(line, x);
    column.iter().zip(line).fold(0.0, |sum, (entry, x)| sum + number(*entry) * *x)
}

/// [`Correlation::backward`] of these coefficients.
pub(super) fn backward(column: &[u32], line: &mut [f64], x: f64) -> f64 {
    let lags = column.iter().skip(1).zip(line.iter());
    let entry = lags.fold(x, |rest, (entry, before)| rest - number(*entry) * *before);
    push(line, entry);
    entry
}

/// [`Correlation::correlate`] of these coefficients. The buffers are a ring: `w_{t−j}` is at `(t − j) mod (P − 1)`,
/// with t counted by age.
#[inline(always)]
pub(super) fn correlate(column: &[u32], z: i64, age: u32, buffers: &mut [NoiseWord]) -> i64 {
    let len = buffers.len() as u32;
    let now = age.checked_rem(len).unwrap_or_default() as usize;
    let mut products = Products::default();
    // From the previous step at `now − 1` down to 0, then from the end down to `now`, the oldest.
    let (low, high) = buffers.split_at(now.min(buffers.len()));
    let lags = low.iter().rev().chain(high.iter().rev());
    for (entry, before) in column.iter().skip(1).zip(lags) {
        products.add(*entry, before.0);
    }
    let w = z.wrapping_sub(products.round(0));
    if let Some(oldest) = buffers.get_mut(now) {
        oldest.0 = w;
    }
    w
}

impl<const P: usize> Sealed for Banded<P> {}

impl<const P: usize> Correlation for Banded<P> {
    /// The last P numbers, latest first.
    type Line = [f64; P];
    const START: [f64; P] = [0.0; P];
    const DRAWS_AGAIN: bool = false;

    #[inline(always)]
    fn words(&self) -> usize {
        P.saturating_sub(1)
    }

    fn add_to(&self, digest: &mut Digest) {
        add_to(&self.column, digest);
    }

    fn forward(&self, line: &mut [f64; P], x: f64) -> f64 {
        forward(&self.column, line, x)
    }

    fn backward(&self, line: &mut [f64; P], x: f64) -> f64 {
        backward(&self.column, line, x)
    }

    fn rounding(&self, _steps: u32) -> f64 {
        1.0
    }

    fn fits(&self, _steps: u32, largest: f64) -> bool {
        fits(largest)
    }

    #[inline(always)]
    fn correlate(&self, z: i64, _before: i64, age: u32, buffers: &mut [NoiseWord]) -> i64 {
        correlate(&self.column, z, age, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_columns_are_refused() {
        assert!(Banded::new([1.0, 0.5, 0.5]).is_ok());
        for wrong in [[0.9, 0.5, 0.1], [1.0, 0.5, 0.6], [1.0, 0.5, 0.0], [1.0, f64::NAN, 0.1], [1.0, 0.5, -0.1]] {
            assert!(Banded::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(Banded::new([1.0]).is_err());
    }
}
