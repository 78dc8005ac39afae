//! What one sample may add.
//!
//! A rule of clipping turns the norm of a sample's mixed gradient into a divisor `d` at least as large: the sample adds
//! `g · C/d`, whose norm is at most `C`. The bound itself is enforced on the grid, in integers (see [`crate::grid`]).

mod flat;

pub use flat::FlatL2;

/// A rule of clipping. Sealed.
pub trait Clip: Copy + crate::noise::sealed::Sealed {
    /// The divisor for a gradient of this norm under the threshold `clip`; not below `norm`.
    fn divisor(&self, norm: f32, clip: f32) -> f32;
}
