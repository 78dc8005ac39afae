//! The trainer's own parts, for the crates that check or use them: audits and the devices of a federation.
//!
//! What they see before a release is as secret as the data, and no ε covers it. A program that trains needs none of them.

pub use crate::prepare::{initial, physical_batch};
pub use crate::rehearsal::self_test;

/// The generator of a run, and its key.
pub mod generator {
    pub use crate::generator::{ChaCha20, generator, key};
}

/// The workers of a run.
pub mod worker {
    pub use crate::worker::{ExactGradients, OUTPUTS, PlainSums, Rows, Sessions, threads};
}
