//! Reverse-mode differentiation of a [`Graph`](crate::graph::Graph) into an ONNX model that computes every sample's
//! gradient.

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

/// One extent of an emitted tensor's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// The number of samples in the physical batch.
    Batch,
    Fixed(usize),
}

/// Name, element type and shape of an input or output of an emitted graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<Dim>,
}

/// An emitted gradient graph (names and shapes: design, "Names and shapes of an emitted graph").
#[derive(Clone, PartialEq, Debug)]
pub struct GradGraph {
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
