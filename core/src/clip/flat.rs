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
//! One sample added or removed changes the sum by at most `C` in the Euclidean norm over all coordinates together.

use super::rule::Clip;
use crate::described::{Description, Kind, Setting};
use crate::noise::sealed::Sealed;

/// Flat L2 clipping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlatL2;

/// Layers are apart from the rule, in recordings too.
pub(super) const FLAT: Description = Description {
    words: "{layers}",
    ..Description::new(
        &[Setting::hidden(
            "layers",
            Kind::Words([
                "flat: the whole gradient, to the clip at most",
                "per layer: each tensor to its equal share of the clip at most",
            ]),
        )],
        &[("flat", &[0.0]), ("per-layer", &[1.0])],
        &[0],
    )
};

impl Sealed for FlatL2 {}

impl Clip for FlatL2 {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        norm.max(clip)
    }
}
