//! Training: from a model, a data set and a budget to a private model and its report.
//!
//! ```text
//! TrainConfig ─ prepare ─► Run (graph, data, rate, noise: all fixed before the first step) ─ engine ─► Outcome ─► DIR
//! ```
//!
//! The loop is `engine`; what each worker does with its share of a draw is `worker`. The core decides every bit of a
//! step; here are threads, files and the order of things.

mod before_steps;
mod best;
mod checkpoint;
pub(crate) mod choice;
mod class_metrics;
mod config;
mod correlation;
mod data_digest;
mod data_names;
mod dry_run;
mod engine;
mod equation6;
mod error;
pub(crate) mod evaluate;
pub mod files;
mod galore;
mod generator;
pub mod gradients;
mod group;
mod held_out;
pub mod inside;
mod method;
mod noise_correlation;
mod non_finite;
mod non_finite_release;
mod normalize_private;
mod normalize_release;
mod not_private;
pub(crate) mod observe;
mod odometer;
mod outcome;
mod prepare;
mod price;
mod prune;
mod ranks;
mod recording;
mod rehearsal;
mod release_noise;
mod release_non_finite;
mod released;
pub mod replay;
mod review;
mod run;
mod run_plan;
mod sampler;
pub mod search;
mod sharded_state;
mod space;
pub(crate) mod step_loop;
mod store;
mod terms;
mod trained;
mod tune;
pub(crate) mod watched;
mod weights;
pub(crate) mod worker;

pub use checkpoint::{Checkpoint, CheckpointError, Invocation};
pub use choice::short;
pub use choice::{
    ByName, Clipping, DecayChoice, Denominator, FilterChoice, LearningRateChoice, NoiseChoice, NormStep,
    OptimizerChoice, Rule, SecondMoment, Solver, ThresholdChoice,
};
pub use class_metrics::{ClassFigures, ClassMetrics};
pub use config::{Budget, CLIPPED_BY_BACKEND, NOT_PRIVATE, Noise, Record, TestMetrics, TrainConfig};
pub use data_names::{data_names, set_data_names};
pub use dry_run::rehearse;
pub use engine::{run, run_on, run_resumable};
pub use error::TrainError;
pub use evaluate::exact_figures;
pub use files::LEDGER;
pub use galore::{Form, LowRank, forms};
pub use group::{Alone, Cut, Group, Pieces, RankError, Word, Words, agree, block_of};
pub use held_out::PrivateMetrics;
pub use method::Method;
pub use noise_correlation::NoiseCorrelation;
pub use non_finite::NON_FINITE;
pub use normalize_private::NormalizePrivate;
pub use outcome::{Evaluation, LastIterate, Outcome, Progress, Resumed, StepReport};
pub use prepare::{Read, Source, plan, prepare, prepare_on, read};
pub use price::set_tuning_rate;
pub use recording::{recording_bytes, recording_part};
pub use rehearsal::Independence;
pub use release_non_finite::{NonFiniteCount, ReleaseNonFinite};
pub use released::Named;
pub use review::review;
pub use run::Run;
pub use space::check_file_fits;
pub use store::{paid_steps, pay_all, pay_plan};
pub use terms::Terms;
pub use weights::check_weights;
