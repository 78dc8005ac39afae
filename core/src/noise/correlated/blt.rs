//! Buffered linear Toeplitz correlation (BLT, arXiv 2404.16706): `c_j = Σ_i ω_i θ_i^{j−1}`, with D buffers for each
//! coordinate.

use super::correlation::Correlation;
use super::exact::{Products, UNIT, rounded_down};
use super::word::NoiseWord;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;
use crate::numerics::up::{add_up, div_up, mul_up};

/// Fractional bits of a buffer, below the grid.
const FINE: u32 = 10;

/// D decays and scales as integers over 2³⁰.
///
/// ```
/// use damper_core::noise::Blt;
///
/// let blt = Blt::new([0.5], [0.25])?;
/// assert_eq!((blt.theta(), blt.omega()), ([0.5], [0.25]));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blt<const D: usize> {
    theta: [u32; D],
    omega: [u32; D],
}

impl<const D: usize> Blt<D> {
    /// Creates a BLT from decays θ and scales ω, as `damper factorize` prints them. They are rounded down to multiples
    /// of 2⁻³⁰.
    ///
    /// # Errors
    ///
    /// Fails if D is not from 1 to 4, a decay or scale is not above 0 and below 1, or `Σ ω_i/θ_i` is above 1.
    pub fn new(theta: [f64; D], omega: [f64; D]) -> Result<Self, ConfigError> {
        const RANGE: ConfigError = ConfigError::new("decays and scales", "above 0 and below 1, of 1 to 4 buffers");
        if D == 0 || D > 4 {
            return Err(RANGE);
        }
        let mut blt = Self { theta: [0; D], omega: [0; D] };
        for ((unit, decay), (scale_unit, scale)) in blt.theta.iter_mut().zip(theta).zip(blt.omega.iter_mut().zip(omega))
        {
            let (Some(decay), Some(scale)) = (rounded_down(decay), rounded_down(scale)) else { return Err(RANGE) };
            if decay == 0 || scale == 0 || decay >> UNIT != 0 || scale >> UNIT != 0 {
                return Err(RANGE);
            }
            (*unit, *scale_unit) = (decay, scale);
        }
        // Rounding the decays down raises the sum slightly.
        for _ in 0..4 {
            if blt.is_bounded() {
                return Ok(blt);
            }
            for (omega, theta) in blt.omega.iter_mut().zip(blt.theta) {
                *omega = omega.saturating_sub(omega.checked_div(theta).unwrap_or_default().saturating_add(1));
            }
        }
        Err(ConfigError::new("scales over decays", "at most 1 in all"))
    }

    /// Returns true if `Σ ω_i/θ_i ≤ 1`, exactly. Then c does not increase, and the absolute entries of the
    /// inverse sum to at most 2.
    fn is_bounded(&self) -> bool {
        // Below 4·2¹²⁰.
        let others = |i: usize| {
            let decays = self.theta.iter().enumerate().filter(|(j, _)| *j != i);
            decays.fold(1u128, |product, (_, theta)| product.wrapping_mul(u128::from(*theta)))
        };
        let sum = self
            .omega
            .iter()
            .enumerate()
            .fold(0u128, |sum, (i, omega)| sum.wrapping_add(u128::from(*omega).wrapping_mul(others(i))));
        sum <= others(D)
    }

    /// Returns the decays θ after rounding.
    #[must_use]
    pub fn theta(&self) -> [f64; D] {
        self.theta.map(number)
    }

    /// Returns the scales ω after rounding.
    #[must_use]
    pub fn omega(&self) -> [f64; D] {
        self.omega.map(number)
    }

    /// Returns θ, then ω, as integers over 2³⁰.
    pub(super) fn units(&self) -> impl Iterator<Item = u32> {
        self.theta.into_iter().chain(self.omega)
    }

    /// Returns `min(n, 1/(1−θ))`, rounded up.
    fn reach(theta: u32, steps: u32) -> f64 {
        let whole = f64::from(1u32 << UNIT);
        let all = div_up(whole, whole - f64::from(theta));
        if all < f64::from(steps) { all } else { f64::from(steps) }
    }
}

fn number(units: u32) -> f64 {
    f64::from(units) / f64::from(1u32 << UNIT)
}

impl<const D: usize> Sealed for Blt<D> {}

impl<const D: usize> Correlation for Blt<D> {
    type Line = [f64; D];
    const START: [f64; D] = [0.0; D];
    const DRAWS_AGAIN: bool = false;

    #[inline(always)]
    fn words(&self) -> usize {
        D
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(1);
        self.units().for_each(|unit| digest.add_word(unit.into()));
    }

    fn forward(&self, line: &mut [f64; D], x: f64) -> f64 {
        let mut sum = x;
        for ((buffer, theta), omega) in line.iter_mut().zip(self.theta).zip(self.omega) {
            sum += number(omega) * *buffer;
            *buffer = number(theta) * *buffer + x;
        }
        sum
    }

    fn backward(&self, line: &mut [f64; D], x: f64) -> f64 {
        let mut entry = x;
        for (buffer, omega) in line.iter().zip(self.omega) {
            entry -= number(omega) * *buffer;
        }
        for (buffer, theta) in line.iter_mut().zip(self.theta) {
            *buffer = number(theta) * *buffer + entry;
        }
        entry
    }

    fn rounding(&self, steps: u32) -> f64 {
        // 2E
        let mut error = 1.0;
        for (theta, omega) in self.theta.iter().zip(self.omega) {
            let of_buffer = mul_up(number(omega), Self::reach(*theta, steps));
            error = add_up(error, mul_up(of_buffer, 1.0 / f64::from(1u32 << FINE)));
        }
        error
    }

    fn fits(&self, steps: u32, largest: f64) -> bool {
        self.theta.iter().all(|theta| {
            let buffer = (largest * f64::from(1u32 << FINE) + 1.0) * Self::reach(*theta, steps);
            buffer < (1u64 << 60) as f64
        })
    }

    #[inline(always)]
    fn correlate(&self, z: i64, _before: i64, _age: u32, buffers: &mut [NoiseWord]) -> i64 {
        let mut products = Products::default();
        for (buffer, omega) in buffers.iter().zip(self.omega) {
            products.add(omega, buffer.0);
        }
        let w = z.wrapping_sub(products.round(FINE));
        for (buffer, theta) in buffers.iter_mut().zip(self.theta) {
            let mut decayed = Products::default();
            decayed.add(theta, buffer.0);
            buffer.0 = decayed.round(0).wrapping_add(w << FINE);
        }
        w
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_coefficients_are_refused() {
        assert!(Blt::new([0.9], [0.9]).is_ok() && Blt::new([0.9], [0.91]).is_err());
        assert!(Blt::new([1.0], [0.1]).is_err() && Blt::new([0.5], [0.0]).is_err());
        assert!(Blt::new([f64::NAN], [0.1]).is_err() && Blt::new([0.5], [-0.1]).is_err());
        assert!(Blt::new([], []).is_err() && Blt::new([0.5; 5], [0.01; 5]).is_err());
        assert!(Blt::new([0.9, 0.5], [0.45, 0.25]).is_ok() && Blt::new([0.9, 0.5], [0.45, 0.26]).is_err());
        // λ as a BLT has a sum of exactly 1, even without a finite binary expansion.
        assert!(Blt::new([1.0 / 3.0], [1.0 / 3.0]).is_ok());
        assert!(Blt::new([0.7, 0.1], [0.35, 0.05]).is_ok());
    }
}
