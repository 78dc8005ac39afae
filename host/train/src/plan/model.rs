//! The model of a run, as read, and the graphs derived from it.

use damper_edit::lora::Adapted;
use damper_grad::{DeriveOptions, GradGraph};
use damper_onnx::graph::Graph;
use damper_onnx::pb::ModelProto;
use std::num::NonZeroUsize;

/// A model, with its derived graphs.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model as it was read, without adapters.
    pub onnx: ModelProto,
    /// The model with adapters, if the run trains any. `graph` and `grad` belong to this model.
    pub adapted: Option<Adapted>,
    /// The public seed of the weights, if the file leaves them out.
    pub init_seed: Option<u64>,
    /// The model as a graph, without the initial values of the trained parameters, which are in `params`.
    pub graph: Graph,
    /// The graph that computes per-sample gradients. If the frozen part is computed once, it covers only the rest of
    /// the network.
    pub grad: GradGraph,
    /// The graph that computes clipped sums, if the backend clips.
    pub clipped: Option<GradGraph>,
    /// The loss, with the name of the output that feeds it.
    pub derive: DeriveOptions,
    /// Initial values of the trained parameters, flat, in the order of `grad.parameters`.
    pub params: Vec<f32>,
    /// Rows of a physical batch.
    pub physical_batch: NonZeroUsize,
}
