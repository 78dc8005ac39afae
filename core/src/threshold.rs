//! Thresholds: which clip `C_t` a step uses. Chosen before the step, from released values only.

mod fixed;

pub use fixed::Fixed;

/// A rule for the clip, with memory `S`.
pub trait Threshold<S: ?Sized> {
    /// The clip of the coming step.
    fn clip(&self, state: &S) -> f32;
}
