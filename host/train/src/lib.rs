//! Training: from a model, a data set and a budget to a private model and its report.
//!
//! ```text
//! TrainConfig ─ prepare ─► Run (graph, data, rate, noise: all fixed before the first step) ─ engine ─► Outcome ─► DIR
//! ```
//!
//! | rooms | |
//! | --- | --- |
//! | `choice`, `config` | what is asked for |
//! | `plan` | what is fixed before the first row is read, and the run that follows |
//! | `engine` | the steps, their workers, and ranks |
//! | `state` | checkpoints, ledgers, recordings |
//! | `outcome` | results, figures, the released model |
//!
//! The core decides every bit of a step; here are threads, files and the order of things.

pub(crate) mod choice;
mod config;
mod engine;
mod error;
pub mod gradients;
pub mod inside;
mod outcome;
mod plan;
pub mod search;
mod state;

pub use choice::short;
pub use choice::{
    ByName, Clipping, DecayChoice, Denominator, FilterChoice, LearningRateChoice, NoiseChoice, NormStep,
    OptimizerChoice, Rule, SecondMoment, Solver, ThresholdChoice,
};
pub use config::method::Method;
pub use config::noise_correlation::NoiseCorrelation;
pub use config::normalize_private::NormalizePrivate;
pub use config::release_non_finite::{NonFiniteCount, ReleaseNonFinite};
pub use config::{Budget, CLIPPED_BY_BACKEND, NOT_PRIVATE, Noise, Record, TestMetrics, TrainConfig};
pub use engine::dry_run::rehearse;
pub use engine::galore::{Form, LowRank, forms};
pub use engine::non_finite::NON_FINITE;
pub use engine::ranks::group::{Alone, Cut, Group, Pieces, RankError, Word, Words, agree, block_of};
pub use engine::rehearsal::Independence;
pub use engine::{run, run_on, run_resumable};
pub use error::TrainError;
pub use outcome::class_metrics::{ClassFigures, ClassMetrics};
pub use outcome::data_names::{data_names, set_data_names};
pub use outcome::evaluate::exact_figures;
pub use outcome::progress::{EndCause, Ended, Progress, Resumed, RunEvent, StepReport};
pub use outcome::released::Named;
pub use outcome::{Evaluation, LastIterate, Outcome};
pub use plan::held_out::PrivateMetrics;
pub use plan::prepare::{prepare, prepare_on};
pub use plan::price::set_tuning_rate;
pub use plan::read::{Read, Source, read};
pub use plan::review::review;
pub use plan::run::Run;
pub use plan::run_plan::plan;
pub use plan::terms::Terms;
pub use plan::weights::check_weights;
pub use state::checkpoint::{Checkpoint, CheckpointError, Invocation};
pub use state::files::LEDGER;
pub use state::recording::{recording_bytes, recording_part};
pub use state::space::check_file_fits;
pub use state::store::{paid_steps, pay_all, pay_plan};
pub use state::{files, replay};
