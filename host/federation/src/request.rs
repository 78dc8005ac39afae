//! The digest of a server's request: the plan, the round and the trained parameters.
//!
//! A device's signature covers it. If a server sends other parameters to one device, that device's update does not
//! count in the sum of the others. A device sends a stored update again only for the same request.

use crate::FederationPlan;
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of the request for `round` at `params`, `[D]`, flat. `None` refers to the model's own
/// parameters, in round 0.
#[must_use]
pub fn request_digest(plan: &FederationPlan, round: u32, params: Option<&[f32]>) -> [u8; 32] {
    let mut digest = Sha256::new_with_prefix(b"damper request 1\n");
    digest.update(plan.digest().as_bytes());
    digest.update(round.to_le_bytes());
    digest.update([u8::from(params.is_some())]);
    params.into_iter().flatten().for_each(|param| digest.update(param.to_le_bytes()));
    digest.finalize().into()
}
