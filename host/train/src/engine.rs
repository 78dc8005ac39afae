//! The engine of a run: one step after the other, and what is told of each.
//!
//! `begin` settles what is fixed before the first step: the key, the backend, the plan, the ledgers, and where the steps begin. Then the
//! engine takes the steps. After each it tells what is released or public to whoever listens ([`Progress`]): how far the run is, an
//! evaluation, a state on the disk. On one process, [`Ranks`] pass values on.

mod begin;
mod clock;
mod course;
mod evaluations;
mod outcome;
mod pricing;
mod state;
mod step;

pub use begin::{observed, run, run_on, run_resumable};
pub(crate) use clock::Clock;
pub(crate) use evaluations::Evaluations;
pub(crate) use step::in_range;
