//! The engine of a run: one step after the other, and what is told of each.
//!
//! `begin` settles what is fixed before the first step: the key, the backend, the plan, the ledgers, and where the steps begin. Then the
//! engine takes the steps. After each it tells what is released or public to whoever listens ([`Progress`]): how far the run is, an
//! evaluation, a state on the disk. On one process, [`Ranks`] pass values on.

mod begin;
mod clock;
mod course;
pub(crate) mod dry_run;
mod evaluations;
pub(crate) mod galore;
pub(crate) mod generator;
pub(crate) mod group;
pub(crate) mod non_finite;
pub(crate) mod non_finite_release;
pub(crate) mod normalize_release;
pub(crate) mod not_private;
pub(crate) mod observe;
pub(crate) mod odometer;
mod outcome;
mod pricing;
pub(crate) mod prune;
pub(crate) mod ranks;
pub(crate) mod rehearsal;
pub(crate) mod sampler;
pub(crate) mod sharded_state;
mod state;
mod step;
pub(crate) mod step_loop;
pub(crate) mod trained;
pub(crate) mod tune;
pub(crate) mod watched;
pub(crate) mod worker;

pub use begin::{observed, run, run_on, run_resumable};
pub(crate) use clock::Clock;
pub(crate) use evaluations::Evaluations;
pub(crate) use step::in_range;
