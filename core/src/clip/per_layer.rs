//! Per-layer clipping: layer `l` of a gradient is clipped on its own, to `C_l = s_l·C` with `Σ s_l² ≤ 1`.
//!
//! Source: McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, per-layer clipping;
//! with equal shares `s_l = 1/√L`.
//!
//! # Memory
//!
//! One [`Layer`] a layer, the caller's.
//!
//! # Numerics
//!
//! Shares are integers over 2²², so that `Σ s_l² ≤ 1` is checked exactly. One grid serves all layers: layer `l` may use
//! `⌊s_l·2^bits⌋` units of it. What a layer adds: see [`crate::grid`].
//!
//! # Privacy
//!
//! One sample added or removed changes the sum by at most `√(Σ C_l²) ≤ C` in the Euclidean norm over all coordinates.

use super::layers::Layers;
use super::rule::Clip;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// Per-layer clipping by the rule `R` in each layer.
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
    /// `rule` has layers of its own.
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
