//! Flat L2 clipping: `g · min(1, C/‖g‖)`, so `d = max(‖g‖, C)`.
//!
//! Source: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, Algorithm 1.
//!
//! # Memory
//!
//! None.
//!
//! # Privacy
//!
//! Adding or removing one sample changes the sum by at most `C` in the Euclidean norm over all coordinates together.

use super::rule::Clip;
use crate::noise::sealed::Sealed;

/// Flat L2 clipping.
///
/// ```
/// use damper_core::clip::{Clip as _, FlatL2};
///
/// assert_eq!(FlatL2.divisor(3.0, 1.0), 3.0);
/// assert_eq!(FlatL2.divisor(0.2, 1.0), 1.0, "a small gradient is not scaled");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlatL2;

impl Sealed for FlatL2 {}

impl Clip for FlatL2 {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        norm.max(clip)
    }
}
