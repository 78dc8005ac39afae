//! Trait of clipping rules.

use super::layers::Layers;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

/// A clipping rule: a function of norm and threshold only.
///
/// Sealed: a rule receives the norm of every sample, which code outside this crate must not see. A program that chooses
/// its rule at run time uses [`AnyClip`](crate::slots::AnyClip).
///
/// ```compile_fail,E0277
/// use core::cell::Cell;
/// #[derive(Clone, Copy)]
/// struct Spy<'a>(&'a Cell<f32>);
/// impl damper_core::clip::Clip for Spy<'_> {
///     fn divisor(&self, norm: f32, clip: f32) -> f32 {
///         self.0.set(norm);
///         norm.max(clip)
///     }
/// }
/// ```
pub trait Clip: Copy + Sealed {
    /// Returns the divisor for a gradient of this norm under the threshold `clip`. It is at least `norm`.
    fn divisor(&self, norm: f32, clip: f32) -> f32;

    /// Returns the layers that are clipped separately, or `None` to clip all coordinates together.
    fn layers(&self) -> Option<Layers<'_>> {
        None
    }

    /// Adds the rule to the digest. Its divisor at zero and its layers identify it.
    #[doc(hidden)]
    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(self.divisor(0.0, 0.0).to_bits().into());
        if let Some(layers) = self.layers() {
            for layer in layers.as_slice() {
                digest.add_word((layer.len as u64) << 32 | u64::from(layer.share));
            }
        }
    }
}
