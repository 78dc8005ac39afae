//! Typed graph and its parts.

use super::QuantizedTensor;
use crate::{DType, Tensor};

/// Index of a value in [`Graph::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub usize);

/// Position of the samples of a batch in a value. Axis `axis` has the extent `outer · N · inner`, and the sample index
/// is the middle digit. Plain axis 0 is `{ axis: 0, outer: 1, inner: 1 }`. Rows of `(N·T, d)` are `{ 0, 1, T }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchAxis {
    /// Axis that contains the samples.
    pub axis: usize,
    /// Factor of the extent before the sample digit.
    pub outer: usize,
    /// Factor of the extent after the sample digit.
    pub inner: usize,
}

/// The source of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Origin {
    /// Data input of the model. Always batched, with batch axis 0.
    Input,
    /// `Graph::parameters[i]`: an initializer. Never batched.
    Parameter(usize),
    /// Known constant. Never batched.
    Constant(Tensor),
    /// Output `slot` of `Graph::nodes[node]`.
    Node {
        /// Index in [`Graph::nodes`].
        node: usize,
        /// Index of the output.
        slot: usize,
    },
}

/// Value of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Unique name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape **for a batch of one sample**: along the batch axis it is `outer · inner`.
    pub shape: Vec<usize>,
    /// Batch axis. `None` if the value is the same for all samples (parameters, constants, and values computed only
    /// from them).
    pub batch: Option<BatchAxis>,
    /// Source.
    pub origin: Origin,
}

/// Application of an operator. Attributes keep their ONNX form. Read them with the typed getters of [`crate`].
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Name in the model, or `OP_INDEX` if it has none. Error messages use it.
    pub name: String,
    /// Operator of the standard domain.
    pub op: String,
    /// Inputs. `None` for an absent optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs, at least one.
    pub outputs: Vec<ValueId>,
    /// Attributes as in the model. Empty for `Reshape` and `Expand`.
    pub attributes: Vec<crate::pb::AttributeProto>,
}

/// Initializer, with the decision if it is trained.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Name under which the emitted graph takes it and returns its gradient.
    pub name: String,
    /// Its value in the graph.
    pub value: ValueId,
    /// Values in the model file.
    pub initial: Tensor,
    /// The stored form, if that is 8-bit integers. Then it is not trained.
    pub quantized: Option<QuantizedTensor>,
    /// True if it gets a gradient. Otherwise it is a constant of the run (see [`Graph::constant`]).
    pub trained: bool,
    /// Reason for the decision, as `damper inspect` prints it.
    pub reason: String,
}

/// Model as a typed graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Version of the standard opset of the nodes.
    pub opset: i64,
    /// All values, indexed by [`ValueId`].
    pub values: Vec<Value>,
    /// Nodes in topological order.
    pub nodes: Vec<Node>,
    /// Data inputs in the model's order, including those that no output depends on.
    pub inputs: Vec<ValueId>,
    /// Outputs of the model, with its order and names.
    pub outputs: Vec<ValueId>,
    /// Float initializers, trained or not, that an output depends on.
    pub parameters: Vec<Parameter>,
    /// Warnings about the parameters before training, one line each.
    pub warnings: Vec<String>,
}
