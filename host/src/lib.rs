//! Train ONNX networks with differential privacy: the command, and a façade over its crates.
//!
//! The stages, in the order of the data flow. Each is a separate type:
//!
//! ```text
//! bytes ─ onnx ─► Model ─ graph ─► Graph ─ grad ─► GradGraph ─ runtime ─► Session ─ train ─► Run
//! ```
//!
//! The crates depend on each other in one direction: `report → train → {data, runtime, grad, kernels} → onnx`, and
//! `train` and `report` on the core and the accountant. Only the command in `cli` uses flags. Nothing here computes a
//! bit of a private step, which is the core's task.
//!
//! The command needs crates of the command line (clap, indicatif). A program that has no use for them names the crates
//! of the stages, such as `damper-train`, instead of this crate. None of them depends on those.
//!
//! # Train a model
//!
//! ```
//! use damper::data::{DataOptions, TestSource};
//! use damper::grad::{DeriveOptions, Loss};
//! use damper::graph::GraphOptions;
//! use damper::runtime::Choice;
//! use damper::train::{Budget, InputFiles, Method, TrainConfig, files, prepare, run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = InputFiles {
//!     model: "../onnx-models/digits-linear.onnx".into(),
//!     of_file: Default::default(),
//!     graph: GraphOptions::default(),
//!     lora: None,
//!     derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
//!     data: "idx:../onnx-models/digits".into(),
//!     data_options: DataOptions::default(),
//! };
//! let config = TrainConfig {
//!     backend: Choice::Portable,
//!     // Makes the run a simulation. Leave it out to train with privacy.
//!     seed: Some(1),
//!     ..TrainConfig::new(Budget::Epsilon(3.0), 1e-5, 128, 10.0, Method::dp_sgd(1.0, 0.5))
//! };
//! let prepared = prepare(&source, config)?;
//! assert!(prepared.price.epsilon <= 3.0);
//!
//! // The ledger of what was charged is in the private folder.
//! let folder = tempfile::tempdir()?;
//! let private = folder.path().join("checkpoint");
//! files::create_private_folder(&private)?;
//! let outcome = run(&prepared, &private, &mut ())?;
//! assert!(outcome.evaluations.last().unwrap().accuracy > Some(0.8));
//!
//! let model = prepared.trained(&outcome.params)?;
//! std::fs::write(folder.path().join("model.onnx"), damper::onnx::encode(&model))?;
//! # Ok(())
//! # }
//! ```

pub mod cli;

pub use damper_accounting as accounting;
pub use damper_audit as audit;
pub use damper_budget as budget;
pub use damper_cluster as cluster;
pub use damper_compile as compile;
pub use damper_data as data;
pub use damper_design as design;
pub use damper_edit as edit;
pub use damper_federated as federated;
pub use damper_federation::{self as federation, aggregate};
pub use damper_grad as grad;
pub use damper_onnx::{self as onnx, graph};
pub use damper_report::{self as report, compare};
pub use damper_runtime as runtime;
pub use damper_train::{self as train, files, replay};
