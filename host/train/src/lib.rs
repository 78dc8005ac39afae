//! Training: from a model, a data set and a privacy budget to a private model and its report.
//!
//! ```text
//! TrainConfig ─ prepare ─► Run (graph, data, rate, noise: all fixed before the first step) ─ engine ─► Outcome ─► DIR
//! ```
//!
//! | modules | |
//! | --- | --- |
//! | `choice`, `config` | settings |
//! | `plan` | reads model and data, fixes everything before the first step |
//! | `engine` | steps, workers and ranks |
//! | `state` | checkpoints, ledgers, recordings |
//! | `outcome` | results, figures and the released model |
//!
//! The core determines every bit of a step. This crate has the threads, the files and the order of operations.
//!
//! # Train a model
//!
//! ```
//! use damper_data::{DataOptions, TestSource};
//! use damper_grad::{DeriveOptions, Loss};
//! use damper_onnx::graph::GraphOptions;
//! use damper_runtime::Choice;
//! use damper_train::{Budget, InputFiles, Method, Progress, RunEvent, TrainConfig, files, prepare, run};
//!
//! // Events have released and public values alone, so they may be shown.
//! struct Evaluations;
//!
//! impl Progress for Evaluations {
//!     fn on_event(&mut self, event: RunEvent<'_>) {
//!         if let RunEvent::Evaluated(at) = event {
//!             println!("step {}: loss {:.3}, epsilon {:.2}", at.step, at.loss, at.epsilon);
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 400 images of 8 by 8 pixels. Those of class 0 are bright on the left, those of class 1 on the right.
//! let folder = tempfile::tempdir()?;
//! let data = folder.path().join("images.csv");
//! let image = |row| (0..64).map(|pixel| if (pixel % 8 > 3) == (row % 2 == 1) { "1," } else { "0," }).collect::<String>();
//! std::fs::write(&data, (0..400).map(|row| format!("{}{}\n", image(row), row % 2)).collect::<String>())?;
//!
//! let source = InputFiles {
//!     model: "../../onnx-models/digits-linear.onnx".into(),
//!     of_file: Default::default(),
//!     graph: GraphOptions::default(),
//!     lora: None,
//!     derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
//!     data: format!("csv:{}", data.display()),
//!     data_options: DataOptions { test: Some(TestSource::Fraction(0.25)), ..DataOptions::default() },
//! };
//! let config = TrainConfig {
//!     backend: Choice::Portable,
//!     evaluate_every: Some(2.0),
//!     // Makes the run a simulation. Leave it out to train with privacy.
//!     seed: Some(1),
//!     ..TrainConfig::new(Budget::Epsilon(3.0), 1e-5, 50, 6.0, Method::dp_sgd(1.0, 0.5))
//! };
//!
//! // Fixes the sampling rate, the noise, the number of steps and epsilon. Nothing is released.
//! let prepared = prepare(&source, config)?;
//! assert_eq!((prepared.data.train.len(), prepared.price.terms.steps), (300, 36));
//! assert!(prepared.price.epsilon <= 3.0 && prepared.price.terms.multiplier > 1.0);
//!
//! // Takes the steps. The ledger of what was charged is in the private folder.
//! let private = folder.path().join("checkpoint");
//! files::create_private_folder(&private)?;
//! let outcome = run(&prepared, &private, &mut Evaluations)?;
//! assert_eq!(outcome.evaluations.len(), 3);
//! assert!(outcome.evaluations[2].accuracy > Some(0.9));
//!
//! // Writes the released model.
//! let model = prepared.trained(&outcome.params)?;
//! std::fs::write(folder.path().join("model.onnx"), damper_onnx::encode(&model))?;
//! # Ok(())
//! # }
//! ```

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
    AdamDenominator, ByName, Clipping, DecayChoice, FilterChoice, LearningRateChoice, NoiseChoice, NormStep,
    OptimizerChoice, OptimizerRule, SecondMoment, SolverChoice, ThresholdChoice,
};
pub use config::defaults::{GivenNoise, GivenOptimizer, NetworkFacts, OpenSettings, PublicFacts, UsedDefault};
pub use config::method::Method;
pub use config::noise_correlation::NoiseCorrelation;
pub use config::normalize_private::NormalizePrivate;
pub use config::release_non_finite::{NonFiniteCount, ReleaseNonFinite};
pub use config::{Budget, CLIPPED_BY_BACKEND, NOT_PRIVATE, NoiseKind, RecordRequest, TestMetrics, TrainConfig};
pub use engine::dry_run::rehearse;
pub use engine::galore::{LowRank, MatrixShape, forms};
pub use engine::non_finite::NON_FINITE;
pub use engine::ranks::group::{Alone, Cut, Group, Pieces, RankError, RankWord, Words, agree, block_of};
pub use engine::rehearsal::Independence;
pub use engine::{run, run_on, run_resumable};
pub use error::TrainError;
pub use outcome::class_metrics::{ClassFigures, ClassMetrics};
pub use outcome::data_names::{data_names, set_data_names};
pub use outcome::figures::{Figures, exact_figures, figures};
pub use outcome::guess::guess_warning;
pub use outcome::progress::{EndCause, Ended, Progress, Resumed, RunEvent, StepReport};
pub use outcome::r_squared::r_squared;
pub use outcome::released::Named;
pub use outcome::{Evaluation, LastIterate, Outcome};
pub use plan::graphs::opaque::{ReadGraph, read_graph};
pub use plan::held_out::PrivateMetrics;
pub use plan::model::Model;
pub use plan::prepare::{RunInputs, prepare, prepare_on};
pub use plan::read::{InputFiles, ModelAndData, read};
pub use plan::review::review;
pub use plan::run::{HeldOutChoice, Run};
pub use plan::run_plan::plan;
pub use plan::terms::{Price, Terms};
pub use plan::tuning::set_tuning_rate;
pub use plan::warnings::Warnings;
pub use plan::weights::check_weights;
pub use state::checkpoint::{Checkpoint, CheckpointError, Invocation};
pub use state::files::LEDGER;
pub use state::model_file::write_model;
pub use state::recording::{recording_bytes, recording_part};
pub use state::space::check_file_fits;
pub use state::store::{paid_steps, pay_all, pay_plan};
pub use state::{files, replay};
