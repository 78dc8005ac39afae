//! The course of a run: one step after the other, and what is told of each.
//!
//! `begin` settles what is fixed before the first step: the key, the backend, the plan, the ledgers, and the place of the first step. Then
//! `steps` takes the steps. After each it tells what is released or public to whoever listens, a [`Progress`](crate::Progress): how far the
//! run is, an evaluation, a state on the disk. Several processes are [`Ranks`](super::ranks::Ranks), which pass values on if there is one.

mod begin;
mod clock;
mod evaluations;
mod outcome;
mod pricing;
mod state;
mod step;
mod steps;

pub use begin::{observed, run, run_on, run_resumable};
pub(crate) use clock::Clock;
pub(crate) use evaluations::Evaluations;
pub(crate) use step::in_range;
