//! Per-layer clipping: clips layer `l` of a gradient separately, to `C_l = s_l·C` with `Σ s_l² ≤ 1`.
//!
//! Source: McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, per-layer clipping.
//! Equal shares are `s_l = 1/√L`.
//!
//! # Memory
//!
//! The caller provides one [`Layer`] for each layer.
//!
//! # Numerics
//!
//! Shares are integers over 2²², so the check of `Σ s_l² ≤ 1` is exact. All layers share one grid. Layer `l` may use
//! `⌊s_l·2^bits⌋` units of it. See [`crate::grid`] for the values that a layer adds.
//!
//! # Privacy
//!
//! Adding or removing one sample changes the sum by at most `√(Σ C_l²) ≤ C` in the Euclidean norm over all coordinates.

use super::layers::Layers;
use super::rule::Clip;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// Per-layer clipping, with rule `R` in each layer.
///
/// ```
/// use damper_core::clip::{Clip as _, FlatL2, Layer, Layers, PerLayer};
///
/// let parts = [Layer::equal(640, 2), Layer::equal(10, 2)];
/// let rule = PerLayer::new(FlatL2, Layers::new(&parts)?)?;
/// assert_eq!(rule.layers().map(|layers| layers.as_slice().len()), Some(2));
/// assert_eq!(rule.divisor(3.0, 1.0), FlatL2.divisor(3.0, 1.0));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerLayer<'a, R> {
    rule: R,
    layers: Layers<'a>,
}

impl<'a, R: Clip> PerLayer<'a, R> {
    /// Clips each of `layers` by `rule`.
    ///
    /// # Errors
    ///
    /// Fails if `rule` already has layers.
    pub fn new(rule: R, layers: Layers<'a>) -> Result<Self, ConfigError> {
        if rule.layers().is_some() {
            return Err(ConfigError::new("rule of per-layer clipping", "one without layers of its own"));
        }
        Ok(Self { rule, layers })
    }
}

impl<R> Sealed for PerLayer<'_, R> {}

impl<R: Clip> Clip for PerLayer<'_, R> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        self.rule.divisor(norm, clip)
    }

    fn layers(&self) -> Option<Layers<'_>> {
        Some(self.layers)
    }
}
