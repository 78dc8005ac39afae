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
