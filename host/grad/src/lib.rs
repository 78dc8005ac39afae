//! Reverse-mode differentiation of a [`Graph`](damper_onnx::graph::Graph) to an ONNX model that computes every sample's
//! gradient.
//!
//! The forward pass is emitted unchanged. A loss returns the first gradient. One sweep over the nodes in reverse order
//! (`derive/sweep.rs`) applies each operator's rule (`rules`) for the gradients of its inputs. Parameter gradients stay
//! in factored form (`factor`) until a readout (`readout`) emits the requested outputs. On request, activations are
//! recomputed (`recompute`).

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
