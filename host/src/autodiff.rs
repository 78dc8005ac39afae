//! Reverse-mode differentiation of a [`Graph`](crate::graph::Graph) into an ONNX model that computes every sample's
//! gradient.
//!
//! The stages: the forward pass is written as it stands; a loss gives the first gradient; one walk over the nodes in
//! reverse order (`sweep`) asks each operator's rule (`rules`) for the gradients of its inputs; parameter gradients
//! stay in factored form (`factor`) until a readout (`readout`) writes what was asked for.

mod broadcast;
mod derive;
mod emit;
mod factor;
mod loss;
mod lower;
mod normalize;
mod readout;
mod refusal;
mod rules;
mod sweep;
pub mod testing;
mod window;

pub use derive::derive;
pub use readout::Readout;
pub use refusal::Refusal;
pub use rules::{has_slope, is_differentiated};

use crate::graph::DType;
use crate::onnx::pb::ModelProto;

/// A loss, one number a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// `softmax-cross-entropy`: labels int64 `[N]` or `[N, S]`.
    SoftmaxCrossEntropy,
    /// `mse`: labels of the output's shape, mean over the sample's elements.
    Mse,
    /// `bce-with-logits`: labels of the output's shape, mean over the sample's elements.
    BceWithLogits,
    /// `output:NAME`: the model computes it.
    Output(String),
}

/// What [`derive()`] is to emit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeriveOptions {
    /// The loss whose gradient is taken.
    pub loss: Loss,
    /// The output that feeds the loss; may be left out where the model has one.
    pub output: Option<String>,
    /// The axis of that output that holds the classes; the last where left out.
    pub class_axis: Option<i64>,
    /// What is read out of the sweep.
    pub readout: Readout,
}

impl DeriveOptions {
    /// The `per-sample` readout of `loss` at the model's one output, classes on the last axis.
    pub fn new(loss: Loss) -> Self {
        Self { loss, output: None, class_axis: None, readout: Readout::PerSample }
    }
}

/// One extent of an emitted tensor's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// The number of samples in the physical batch.
    Batch,
    /// A known extent.
    Fixed(usize),
}

/// Name, element type and shape of an input or output of an emitted graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    /// The tensor's name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<Dim>,
}

/// An emitted gradient graph (names and shapes: design, "Names and shapes of an emitted graph").
#[derive(Clone, PartialEq, Debug)]
pub struct GradGraph {
    /// The model to run.
    pub model: ModelProto,
    /// The model's own data inputs.
    pub inputs: Vec<TensorSpec>,
    /// `dp.labels`; none for `output:NAME`.
    pub labels: Option<TensorSpec>,
    /// The trained parameters, in the order in which the flat parameter vector holds them.
    pub parameters: Vec<TensorSpec>,
    /// `dp.loss`, the model's outputs, then `dp.grad.NAME` for each of `parameters`.
    pub outputs: Vec<TensorSpec>,
}
