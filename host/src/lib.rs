//! Train ONNX networks with differential privacy: the command, and one door to the crates that it is made of.
//!
//! The stages, in the order data passes through them (each is a type of its own):
//!
//! ```text
//! bytes ─ onnx ─► Model ─ graph ─► Graph ─ grad ─► GradGraph ─ runtime ─► Session ─ train ─► Run
//! ```
//!
//! The crates depend on each other one way: `report → train → {data, runtime, grad, kernels} → onnx`, and `train` and `report` on the
//! core and the accountant. Only the command in `cli` knows flags. Nothing here decides a bit of a private step: that is the core's.

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
