//! Training without privacy: passes a plain mean gradient to an optimizer.
//!
//! A baseline without noise must update the parameters as a private run does. It therefore needs these optimizers,
//! which accept [`Released`] only. The host's trainer claims this access for `damper train --not-private`. Firmware,
//! enclaves and the C interface do not.
//!
//! # Privacy
//!
//! This bypasses the private step and does not enter it. A step takes its gradients from a
//! [`Mechanism`](super::Mechanism). Code here cannot read, create or replace a sum, a batch, the noise or a ledger. Its
//! result comes from no step, so no privacy cost is charged and no guarantee holds.

use super::Released;
use damper_access::NotPrivate;

impl<'a> Released<'a> {
    /// Wraps a mean gradient that is **not private**: neither clipped nor noised. Its noise standard deviation is 0.
    #[must_use]
    pub fn not_private(grad: &'a [f32], _: NotPrivate) -> Self {
        Self { grad, noise_std: 0.0 }
    }
}
