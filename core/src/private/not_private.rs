//! The door for training without privacy, behind the feature `not-private`: a plain mean gradient as an optimizer takes it.
//!
//! A baseline without noise is to move the parameters as a private run does, so it needs these optimizers, which accept [`Released`]
//! alone. The feature is off by default. The host's trainer enables it, for `damper train --not-private`; firmware, enclaves and the C
//! interface do not.
//!
//! # Privacy
//!
//! The door leads around the private step, not into it. A step takes its gradients from a [`Mechanism`](super::Mechanism), and nothing
//! here reads, makes or replaces a sum, a draw, the noise or a ledger. What goes through the door comes out of no step, so no privacy
//! cost is charged for it, and none holds.

use super::Released;

impl<'a> Released<'a> {
    /// The coordinates of a mean gradient that is **not private**: neither clipped nor with noise. Its standard deviation of the noise
    /// is 0.
    #[must_use]
    pub fn not_private(grad: &'a [f32]) -> Self {
        Self { grad, noise_std: 0.0 }
    }
}
