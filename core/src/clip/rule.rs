//! The trait of rules of clipping.

use super::layers::Layers;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

/// A rule of clipping: a function of norm and threshold alone.
///
/// Sealed: a rule is called with the norm of every sample, which no code outside of this crate may see. A program that chooses
/// its rule when it runs takes [`AnyClip`](crate::slots::AnyClip).
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
    /// The divisor for a gradient of this norm under the threshold `clip`; not below `norm`.
    fn divisor(&self, norm: f32, clip: f32) -> f32;

    /// The layers that are clipped each on its own; `None`: all coordinates together.
    fn layers(&self) -> Option<Layers<'_>> {
        None
    }

    /// Adds what the rule is: its divisor of a zero tells it from others, and so do its layers.
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
