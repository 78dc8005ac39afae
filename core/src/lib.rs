//! One differentially private training step, for targets from a microcontroller to a GPU. No heap, no unsafe code, no
//! panic, and the same bits on every target.
//!
//! ```
//! use damper_core::prelude::*;
//!
//! # const D: usize = 3;
//! # const N: u32 = 1797;
//! # fn gradient(params: &[f32; D], _sample: u32) -> [f32; D] { params.map(|param| param - 1.0) }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (journal, mut bytes, mut params) = (Volatile, [7; 32], [0.0; D]);
//! # let key = Key::from_bytes(&mut bytes);
//! const BUDGET: u32 = 100;
//! let rate = Rate::of(60, N.into())?;
//! let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).momentum(0.9).expected_batch(60);
//! let config = config.poisson_batches(rate, N).build()?;
//! let mut state = config.state::<D>();
//! let mut ledger = Ledger::open(journal, BUDGET)?;
//! let noise = NoiseRng::from_key(key);
//! while let Some(mut step) = config.begin(&mut state, &mut ledger)? {
//!     for i in step.poisson_batch(&noise)? {
//!         step.add(&gradient(&params, i))?;
//!     }
//!     step.finish(&mut params, &noise)?;
//! }
//! # assert!(ledger.charged_steps() == BUDGET && params.iter().all(|param| (param - 1.0).abs() < 0.5));
//! # Ok(())
//! # }
//! ```
//!
//! [`Ledger::open`](accounting::Ledger::open) takes a store that survives a restart, such as the journal of
//! `damper-journal`. An accountant on the host computes the budget in steps and its (ε, δ): `damper calibrate`.
//!
//! [`step`] is the entry point to every other method. The layers below it are independent of privacy: [`numerics`] is
//! plain arithmetic, and filters and optimizers receive only released values:
//!
//! ```text
//! step ─► clip, grid, count, threshold ─► private (the privacy boundary) ─► noise ─► filter ─► optimizer
//!  └────► accounting (events, Rényi curve, ledger, store)        all ─► numerics
//! ```
//!
//! Configuration is small, immutable and validated when built. The caller provides the memory, as slices, arrays or
//! vectors.
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
pub mod noise;
pub mod numerics;
pub mod optimizer;
pub mod prelude;
pub mod private;
pub mod record;
pub mod sampling;
pub mod schedule;
pub mod slots;
pub mod state;
pub mod step;
pub mod threshold;
pub mod update;

pub use numerics::self_test::{ArithmeticError, self_test};
pub use step::dp_sgd::DpSgd;

// The core has no allocator, but its examples and tests use one.
#[cfg(test)]
extern crate std;
