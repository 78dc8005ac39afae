//! The model of a run: what was read, and the graphs derived from it.

use damper_edit::lora::Adapted;
use damper_grad::{DeriveOptions, GradGraph};
use damper_onnx::graph::Graph;
use damper_onnx::pb::ModelProto;
use std::num::NonZeroUsize;

/// A model, read and derived.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model as it was read, without adapters.
    pub onnx: ModelProto,
    /// The model with adapters, if the run trains some. `graph` and `grad` are of it.
    pub adapted: Option<Adapted>,
    /// The public seed of its weights, if the file leaves them out.
    pub init_seed: Option<u64>,
    /// The model as a graph, without the initial values of the trained parameters, which are `params`.
    pub graph: Graph,
    /// The graph that computes per-sample gradients: of the rest of the network, if its frozen part is computed once.
    pub grad: GradGraph,
    /// The graph that computes clipped sums, if the backend clips.
    pub clipped: Option<GradGraph>,
    /// The loss. The output that feeds it is named.
    pub derive: DeriveOptions,
    /// Initial values of the trained parameters, flat, in `grad.parameters` order.
    pub params: Vec<f32>,
    /// Rows of a physical batch.
    pub physical_batch: NonZeroUsize,
}
