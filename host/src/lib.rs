//! Train ONNX networks with differential privacy.
//!
//! The stages, in the order data passes through them (each is a type of its own):
//!
//! ```text
//! bytes ─ onnx ─► Model ─ graph ─► Graph ─ autodiff ─► GradGraph ─ backend ─► Session ─ train ─► Run
//! ```
//!
//! Arrows between the modules point one way: `cli → audit → train → {data, backend, replay, init, autodiff → graph → onnx}`, and all
//! of them → `damper_core`; `train` and `backend` share what convolves (`convolution`), beside what multiplies (`product`). Nothing
//! here decides a bit of a private step: that is the core's.

pub use damper_accounting as accounting;
pub mod aggregate;
pub mod audit;
pub mod autodiff;
pub mod backend;
pub mod budget;
pub mod cli;
pub mod compare;
mod convolution;
pub mod data;
pub mod files;
pub mod filter;
pub mod graph;
pub mod init;
pub mod onnx;
mod page;
mod product;
pub mod replay;
pub mod report;
pub mod train;
mod vectors;
