//! The wall between private and released values.
//!
//! A sum of clipped gradients has no accessor: only a [`Mechanism`] turns it into a [`Released`] gradient, and filters and
//! optimizers accept nothing else. That raw gradients cannot reach the parameters is a compile error:
//!
//! ```compile_fail,E0451
//! use damper_core::private::Released;
//! let grad = [1.0f32];
//! let forged = Released { grad: &grad, noise_std: 0.0 };
//! ```
//!
//! ```compile_fail,E0616
//! fn peek(sum: damper_core::private::ClippedSum<'_, i64>) -> i64 {
//!     sum.sum[0]
//! }
//! ```

use crate::clip::Clip;
use crate::error::ConfigError;
use rand_core::Rng;

/// How clipped gradients are summed and released. Sealed: a closed set, so that nobody passes one that breaks the proof.
pub trait Mechanism: Copy + crate::noise::sealed::Sealed {
    /// What sums are kept in.
    type Word: Copy + Default;

    /// Standard deviation of the noise over the clip, as it runs.
    fn multiplier(&self) -> f64;

    /// Whether `clip` can be represented.
    ///
    /// # Errors
    ///
    /// Zero, negative, not finite, or too small for the arithmetic.
    fn check_clip(&self, clip: f32) -> Result<(), ConfigError>;

    /// This mechanism with noise of `factor` times its standard deviation, rounded up and within its range: step `t` of a
    /// noise schedule. A factor of 1 gives the mechanism itself.
    #[must_use]
    fn scaled(&self, factor: f64) -> Self;

    /// Adds one sample, clipped, and returns the norm it came with; adds nothing and returns nothing if that is not finite.
    #[doc(hidden)]
    fn add_sample<C: Clip>(&self, clip: &C, threshold: f32, parts: &[&[f32]], sum: &mut [Self::Word]) -> Option<f32>;

    #[doc(hidden)]
    fn merge(&self, sum: &mut [Self::Word], other: &[Self::Word]);

    /// Adds noise to `sum`, writes the mean over `expected_batch` to `out`, and wipes `sum`.
    #[doc(hidden)]
    fn release<R: Rng>(
        &self,
        threshold: f32,
        expected_batch: u32,
        sum: &mut [Self::Word],
        words: &mut R,
        out: &mut [f32],
    );

    /// Puts a released value where the sum was, which is free by then.
    #[doc(hidden)]
    fn hold(released: f32) -> Self::Word;

    /// The released value that was put there.
    #[doc(hidden)]
    fn held(word: Self::Word) -> f32;
}

/// A sum over samples that nobody can read (`[D]`). Dropping it wipes it.
pub struct ClippedSum<'a, W: Copy + Default> {
    pub(crate) sum: &'a mut [W],
}

impl<'a, W: Copy + Default> ClippedSum<'a, W> {
    /// An empty sum in the caller's memory.
    pub(crate) fn new(sum: &'a mut [W]) -> Self {
        sum.fill(W::default());
        Self { sum }
    }
}

impl<W: Copy + Default> Drop for ClippedSum<'_, W> {
    fn drop(&mut self) {
        self.sum.fill(W::default());
    }
}

/// A piece of a released mean gradient: consecutive coordinates, public.
pub struct Released<'a> {
    grad: &'a [f32],
    noise_std: f64,
}

impl<'a> Released<'a> {
    pub(crate) fn new(grad: &'a [f32], noise_std: f64) -> Self {
        Self { grad, noise_std }
    }

    /// The coordinates.
    #[must_use]
    pub fn grad(&self) -> &'a [f32] {
        self.grad
    }

    /// Standard deviation of the noise in each coordinate: `multiplier · C / B`.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }
}
