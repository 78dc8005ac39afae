//! The typed graph and its parts.

use super::QuantizedTensor;
use crate::{DType, Tensor};

/// Index of a value in [`Graph::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub usize);

/// Where the samples of a batch lie in a value: axis `axis` has the extent `outer · N · inner`, and the sample index is
/// the middle digit. Plain axis 0 is `{ axis: 0, outer: 1, inner: 1 }`; rows of `(N·T, d)` are `{ 0, 1, T }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchAxis {
    /// The axis that holds the samples.
    pub axis: usize,
    /// Digits of the extent before the sample.
    pub outer: usize,
    /// Digits of the extent after the sample.
    pub inner: usize,
}

/// The source of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Origin {
    /// A data input of the model (always batched, batch axis 0).
    Input,
    /// `Graph::parameters[i]`: an initializer. Never batched.
    Parameter(usize),
    /// A constant known now. Never batched.
    Constant(Tensor),
    /// Output `slot` of `Graph::nodes[node]`.
    Node {
        /// Index in [`Graph::nodes`].
        node: usize,
        /// The index of its output.
        slot: usize,
    },
}

/// One value of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The name in the model (unique).
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The shape **of a batch of one sample**: along the batch axis it is `outer · inner`.
    pub shape: Vec<usize>,
    /// `None`: the value is the same for all samples (parameters, constants, and what is computed from them alone).
    pub batch: Option<BatchAxis>,
    /// Its source.
    pub origin: Origin,
}

/// One operator application. Attributes keep their ONNX form; read them with the typed getters of [`crate`].
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The node's name in the model, or `OP_INDEX` where it has none: what error messages say.
    pub name: String,
    /// Operator of the standard domain.
    pub op: String,
    /// `None` for an optional input that is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// At least one.
    pub outputs: Vec<ValueId>,
    /// As in the model; none for `Reshape` and `Expand`.
    pub attributes: Vec<crate::pb::AttributeProto>,
}

/// An initializer, and whether it is trained.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The name under which the emitted graph takes it and reports its gradient.
    pub name: String,
    /// The value that stands for it.
    pub value: ValueId,
    /// The values in the model file.
    pub initial: Tensor,
    /// The same values as the file has them, if they are 8-bit integers. Then it is not trained.
    pub quantized: Option<QuantizedTensor>,
    /// True if it gets a gradient. One that does not is a constant of the run: see [`Graph::constant`].
    pub trained: bool,
    /// Why it is trained or not, as `damper inspect` prints it.
    pub reason: String,
}

/// A model as a typed graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Version of the standard operator set the nodes are written in.
    pub opset: i64,
    /// Every value, indexed by [`ValueId`].
    pub values: Vec<Value>,
    /// In topological order.
    pub nodes: Vec<Node>,
    /// The data inputs, in the model's order, those too that no output depends on.
    pub inputs: Vec<ValueId>,
    /// The model's outputs, in its order and under its names.
    pub outputs: Vec<ValueId>,
    /// Float initializers, trained or not, that an output depends on.
    pub parameters: Vec<Parameter>,
    /// Remarks on the parameters before training: one line each.
    pub warnings: Vec<String>,
}
