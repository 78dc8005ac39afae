//! Privacy accounting: ε of a noise multiplier, the multiplier for an ε, and the allowed δ.
//!
//! [`Event`] is a mechanism: releases and draws, and what is composed of them. Two accountants bound its privacy cost: [`pld`], which is
//! tight, and the Rényi accountant of [`damper_core::accounting::renyi`], which a device's ledger adds up. Here are calibration of any one quantity, the refusals (one line each, naming the flag and the
//! remedy), and what `damper epsilon` and `damper calibrate` answer. Nothing here trains: an auditor needs no more than this.

mod answer;
mod calibration;
mod coins;
mod correlated;
mod delta;
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
