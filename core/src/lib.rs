//! One differentially private training step, for a microcontroller as for a GPU: no heap, no unsafe, no panic, and the
//! same bits on every target.
//!
//! The way through it is [`step`]. Below it, the arithmetic ([`numerics`]) knows nothing of privacy, and filters and
//! optimizers never see a value that has not been released:
//!
//! ```text
//! step ─► clip, grid, count, threshold ─► private (the wall) ─► noise ─► filter ─► optimizer
//!  └────► accounting (events, Rényi curve, ledger, store)        all ─► numerics
//! ```
//!
//! Configuration is small, immutable and validated when built; memory is the caller's, as slices, arrays or vectors.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))] // References in tests are plain arithmetic.

pub mod accounting;
pub mod average;
pub mod clip;
pub mod count;
pub mod error;
pub mod filter;
pub mod grid;
pub mod held_out;
pub mod memory;
pub mod mutant;
pub mod noise;
pub mod numerics;
pub mod optimizer;
pub mod private;
pub mod replay;
pub mod sampling;
pub mod schedule;
mod self_test;
pub mod slots;
pub mod step;
pub mod threshold;
pub mod update;

pub use self_test::{ArithmeticError, self_test};

// The allocator-free core is documented and tested with examples that have one.
#[cfg(test)]
extern crate std;
