//! Automatic clipping, AUTO-S: `g · C/(‖g‖ + γ)`, so `d = ‖g‖ + γ`.
//!
//! Every gradient is normalised, large or small. `C` only scales the sum and its noise, so the learning rate can absorb
//! it. The stability constant `γ` keeps small gradients from counting like large gradients.
//!
//! Source: Bu, Wang, Zha, Karypis, "Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger",
//! NeurIPS 2023, AUTO-S (their default γ is 0.01).
//!
//! # Memory
//!
//! None.
//!
//! # Numerics
//!
//! `F(‖g‖ + γ)`, followed by the arithmetic of the [grid](crate::grid).
//!
//! # Privacy
//!
//! `‖g‖/(‖g‖ + γ) < 1`. Adding or removing one sample changes the sum by at most `C` in the Euclidean norm over all
//! coordinates together.

use super::rule::Clip;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// Automatic clipping with a stability constant.
///
/// ```
/// use damper_core::clip::{Automatic, Clip as _};
///
/// // g · C/(‖g‖ + γ): all gradients have nearly the norm C afterwards.
/// assert_eq!(Automatic::new(0.5)?.divisor(3.0, 1.0), 3.5);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Automatic {
    pub(super) gamma: f32,
}

impl Automatic {
    /// Creates automatic clipping with stability constant `γ`, in units of gradient norms.
    ///
    /// # Errors
    ///
    /// Fails unless `γ` is finite and at least 1e-18.
    pub fn new(gamma: f32) -> Result<Self, ConfigError> {
        // Below 1e-18, the squares of equally small gradients underflow, and so does the norm.
        if gamma.is_finite() && gamma >= 1e-18 {
            Ok(Self { gamma })
        } else {
            Err(ConfigError::new("gamma of automatic clipping", "finite, and at least 1e-18"))
        }
    }
}

impl Sealed for Automatic {}

impl Clip for Automatic {
    fn divisor(&self, norm: f32, _clip: f32) -> f32 {
        norm + self.gamma
    }
}
