//! What one sample may add.
//!
//! A rule of clipping turns the norm of a sample's mixed gradient into a divisor `d`: the sample adds `g · C/d`. That its
//! norm is at most `C` does not rest on the rule: it is enforced on what is summed, on the grid in integers (see
//! [`crate::grid`]), per layer where the rule has [`Layers`].

mod automatic;
mod flat;
mod per_layer;

pub use automatic::Automatic;
pub use flat::FlatL2;
pub use per_layer::{Layer, Layers, PerLayer};

/// A rule of clipping: a function of norm and threshold alone.
pub trait Clip: Copy {
    /// The divisor for a gradient of this norm under the threshold `clip`; not below `norm`.
    fn divisor(&self, norm: f32, clip: f32) -> f32;

    /// The layers that are clipped each on its own; `None`: all coordinates together.
    fn layers(&self) -> Option<Layers<'_>> {
        None
    }
}
