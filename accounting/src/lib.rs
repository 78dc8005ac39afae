//! Privacy accounting: ε of a noise multiplier, the multiplier for an ε, and the allowed δ.
//!
//! [`Event`] describes a mechanism: releases, draws and their composition. Two accountants bound its privacy cost:
//! [`pld`] is tight, and the Rényi accountant of [`damper_core::accounting::renyi`] is the sum that a device's ledger
//! keeps.
//!
//! [`DpEvent`] describes the mechanisms of other programs, and needs no other crate of damper.
//!
//! The crate also calibrates any single quantity, and has the results of `damper epsilon` and `damper calibrate`. Each
//! error is one line that names the flag and the fix. The crate has no training code, so an auditor needs nothing else.

mod answer;
mod calibration;
mod coins;
mod correlated;
mod delta;
mod dp_event;
mod error;
mod event;
pub mod factor;
mod limits;

mod plan;
pub mod pld;
mod price;
mod recorded;
mod replaced;
mod sampler;
pub mod selection;
mod shares;
mod smaller;
mod truncation;

pub use damper_core::accounting::Rate;

pub use answer::{AccountingResult, CalibrateQuery, EpsilonQuery};
pub use calibration::schedule::{DrawSchedule, NoiseFactors};
pub use calibration::search::{Calibrated, OnGrid};
pub use calibration::{calibrate, calibrate_batch, calibrate_on_grid, calibrate_rate, calibrate_steps, sampling_rate};
pub use correlated::{CorrelatedNoise, CorrelatedRun};
pub use delta::{DeltaVerdict, judge_delta};
pub use dp_event::DpEvent;
pub use dp_event::adjacency::Adjacency;
pub use dp_event::search::{calibrate_count, calibrate_event};
pub use error::{AccountingError, SMALLEST_SIGMA};
pub use event::{Event, Statistic};
pub use limits::{LARGEST_GROUP, LARGEST_USEFUL};
pub use plan::{Plan, Spent, epsilon};
pub use price::{Accountant, EpsilonBound, upward};
pub use recorded::{Recorded, RunKind, RunParts, RunSearch};
pub use sampler::Sampler;
pub use selection::CandidateCount;
pub use shares::{NoiseShares, SharedRounds, tail};
pub use truncation::{Truncation, TruncationBound};
