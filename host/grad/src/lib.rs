//! Reverse-mode differentiation of a [`Graph`](damper_onnx::graph::Graph) into an ONNX model that computes every sample's
//! gradient.
//!
//! The stages: the forward pass is written as it stands; a loss gives the first gradient; one walk over the nodes in
//! reverse order (`derive/sweep.rs`) asks each operator's rule (`rules`) for the gradients of its inputs; parameter gradients
//! stay in factored form (`factor`) until a readout (`readout`) writes what was asked for; on request activations are computed
//! again (`recompute`).

mod axis_map;
mod backward;
mod broadcast;
mod cost;
mod custom;
mod derive;
mod derive_error;
mod emit;
mod factor;
mod grad_graph;
mod integers;
mod lookup;
mod loss;
mod lower;
mod options;
mod readout;
mod recompute;
mod rules;
mod warnings;
mod window;

pub use cost::Cost;
pub use derive::{FrozenPart, UNREACHED, derive};
pub use derive_error::DeriveError;
pub use factor::Costs;
pub use grad_graph::{GradGraph, KernelWindows};
pub use options::{DeriveOptions, LabelWeights, Loss, LossReduction};
pub use readout::{GradStrategy, Readout};
pub use rules::{has_nonzero_derivative, is_differentiated, rules};
pub use warnings::warnings;
pub use window::SlidingWindow;
