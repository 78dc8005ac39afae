//! Trait of correlations.

use super::participation::Participation;
use super::word::NoiseWord;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;
use crate::numerics::up::{mul_up, sqrt_up};

/// First column of C. Sealed, because the privacy cost depends on it.
///
/// ```
/// use damper_core::noise::{Banded, Correlation, Lambda, Participation};
///
/// fn words(correlation: &impl Correlation) -> usize {
///     correlation.words()
/// }
/// assert_eq!((words(&Banded::new([1.0, 0.5, 0.25])?), words(&Lambda::new(15, 4)?)), (2, 0));
/// let sensitivity = Banded::new([1.0, 0.5])?.sensitivity(Participation::single(10)?);
/// assert!((sensitivity - 1.25f64.sqrt()).abs() < 1e-9);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait Correlation: Copy + PartialEq + core::fmt::Debug + Sealed {
    /// State of one `f64` sequence through the matrix or its inverse.
    #[doc(hidden)]
    type Line: Copy + core::fmt::Debug;
    /// State before the first number of the sequence.
    #[doc(hidden)]
    const START: Self::Line;
    /// False if no correlation of this type draws the noise of the previous step again.
    #[doc(hidden)]
    const DRAWS_AGAIN: bool;

    /// Returns the number of [`NoiseWord`]s for each coordinate.
    #[must_use]
    fn words(&self) -> usize;

    /// Adds all coefficients to the digest.
    #[doc(hidden)]
    fn add_to(&self, digest: &mut Digest);

    /// Returns true if the noise of the previous step is drawn again.
    #[doc(hidden)]
    fn draws_again(&self) -> bool {
        Self::DRAWS_AGAIN
    }

    /// Returns the next entry of `Cx` for the next entry of x.
    #[doc(hidden)]
    fn forward(&self, line: &mut Self::Line, x: f64) -> f64;

    /// Returns the next entry of `C⁻¹x`.
    #[doc(hidden)]
    fn backward(&self, line: &mut Self::Line, x: f64) -> f64;

    /// Returns `R/√(nm)` over n steps, rounded up.
    #[doc(hidden)]
    fn rounding(&self, steps: u32) -> f64;

    /// Returns true if no buffer overflows over n steps of noise w of at most this size.
    #[doc(hidden)]
    fn fits(&self, steps: u32, largest: f64) -> bool;

    /// Returns `w_t` of a coordinate and updates its buffers. `before` is `z_{t−1}` if it is drawn again. `age` is the
    /// number of steps since the buffers were 0.
    #[doc(hidden)]
    fn correlate(&self, z: i64, before: i64, age: u32, buffers: &mut [NoiseWord]) -> i64;

    /// Returns the variance of the noise in the sum over all steps, divided by `σ²`. It is `Σ_t A_t²`, with A the
    /// prefix sums of the first column of C⁻¹.
    fn error(&self, participation: Participation) -> f64 {
        let (mut line, mut prefix, mut error) = (Self::START, 0.0, 0.0);
        for t in 0..participation.steps() {
            prefix += self.backward(&mut line, f64::from(u8::from(t == 0)));
            error += prefix * prefix;
        }
        error
    }

    /// Returns S, rounded up: `S² = Σ_t v_t²`, `v = C·(1 at 0, b, 2b, … k times)`. Takes `O(n)` time.
    fn sensitivity(&self, participation: Participation) -> f64 {
        let (mut line, mut square) = (Self::START, 0.0);
        let steps = participation.steps();
        for t in 0..steps {
            let v = self.forward(&mut line, f64::from(u8::from(participation.is_worst(t))));
            square += v * v;
        }
        // No term is negative, so every rounding is relative. There are at most two a step for each buffer's chain, one
        // a square, and one a sum.
        let roundings = 4.0 * f64::from(steps) + 8.0 * self.words() as f64 + 64.0;
        mul_up(sqrt_up(square), 1.0 + roundings * f64::EPSILON)
    }
}
