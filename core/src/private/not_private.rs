//! Training without privacy: a plain mean gradient as an optimizer takes it.
//!
//! A baseline without noise is to move the parameters as a private run does, so it needs these optimizers, which accept [`Released`]
//! alone. The host's trainer claims this access, for `damper train --not-private`; firmware, enclaves and the C interface do not.
//!
//! # Privacy
//!
//! This leads around the private step, not into it. A step takes its gradients from a [`Mechanism`](super::Mechanism), and nothing
//! here reads, makes or replaces a sum, a draw, the noise or a ledger. What is made here comes out of no step, so no privacy
//! cost is charged for it, and none holds.

use super::Released;
use damper_access::NotPrivate;

impl<'a> Released<'a> {
    /// The coordinates of a mean gradient that is **not private**: neither clipped nor with noise. Its standard deviation of the noise
    /// is 0.
    #[must_use]
    pub fn not_private(grad: &'a [f32], _: NotPrivate) -> Self {
        Self { grad, noise_std: 0.0 }
    }
}
