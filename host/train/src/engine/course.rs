//! The step loop of a run, and the events of each step.
//!
//! `begin` determines what is fixed before the first step: the key, the backend, the plan, the ledgers, and the index
//! of the first step. Then `steps` takes the steps. It sends a [`RunEvent`](crate::RunEvent) to the listener, a
//! [`Progress`](crate::Progress), for progress, an evaluation, a saved state and the end. The loop without privacy
//! shares the `trajectory`. Several processes are [`Ranks`](super::ranks::Ranks). With a single process, these return
//! their inputs.

mod begin;
mod clock;
mod device;
mod evaluations;
pub(crate) mod frozen;
mod outcome;
mod pricing;
mod settled;
mod state;
mod step;
mod steps;
mod trajectory;

#[cfg(test)]
use begin::{Files, begin};
pub use begin::{observed, run, run_on, run_resumable};
pub(in crate::engine) use settled::{Settled, Written};
pub(crate) use trajectory::{Ending, Trajectory};
