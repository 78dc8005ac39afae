//! The engine of a run: the step loop, sampling, workers, mechanisms, releases, and several ranks.

mod course;
pub(crate) mod dry_run;
pub(crate) mod galore;
pub(crate) mod generator;
mod host_nodes;
pub(crate) mod iterates;
pub(crate) mod non_finite;
pub(crate) mod non_finite_release;
pub(crate) mod normalize_release;
pub(crate) mod not_private;
pub(crate) mod observe;
pub(crate) mod odometer;
pub(crate) mod prune;
pub(crate) mod ranks;
pub(crate) mod rehearsal;
pub(crate) mod sampler;
pub(crate) mod step_loop;
pub(crate) mod trained;
pub(crate) mod watched;
pub(crate) mod worker;

pub(crate) use course::{Ending, Trajectory, frozen};
pub use course::{observed, run, run_on, run_resumable};
