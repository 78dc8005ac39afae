//! A typed graph: every value has a known element type, a known shape, and a known place of the batch.
//!
//! [`Graph`] is canonical, so that the stages behind it meet few forms of the same thing:
//!
//! - `Constant`, shape arithmetic and every subgraph of constants are folded into [`Origin::Constant`];
//! - `Identity` and `Dropout` (at inference) are gone: their readers read what they read;
//! - `Flatten`, `Squeeze`, `Unsqueeze` and `Reshape` are one operator, `Reshape`, with one input: the target is the
//!   output value's own shape and batch axis. `Expand` likewise has one input;
//! - an initializer that several parameters share (an exporter merged equal values) is several parameters.
//!
//! Nodes are in topological order.

/// Index of a value in [`Graph::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub usize);

/// Element types that reach the differentiated graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DType {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

/// Where the samples of a batch lie in a value: axis `axis` has the extent `outer · N · inner`, and the sample index is
/// the middle digit. Plain axis 0 is `{ axis: 0, outer: 1, inner: 1 }`; rows of `(N·T, d)` are `{ 0, 1, T }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchAxis {
    pub axis: usize,
    pub outer: usize,
    pub inner: usize,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Origin {
    /// A data input of the model (always batched, batch axis 0).
    Input,
    /// `Graph::parameters[i]`: an initializer. Never batched.
    Parameter(usize),
    /// A constant known now. Never batched.
    Constant(Tensor),
    /// Output `slot` of `Graph::nodes[node]`.
    Node { node: usize, slot: usize },
}

/// One value of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The name in the model (unique).
    pub name: String,
    pub dtype: DType,
    /// The shape **of a batch of one sample**: along the batch axis it is `outer · inner`.
    pub shape: Vec<usize>,
    /// `None`: the value is the same for all samples (parameters, constants, and what is computed from them alone).
    pub batch: Option<BatchAxis>,
    pub origin: Origin,
}

/// One operator application. Attributes keep their ONNX form; read them with the typed getters of [`crate::onnx`].
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The node's name in the model, or `OP_INDEX` where it has none: what error messages say.
    pub name: String,
    /// Operator of the standard domain.
    pub op: String,
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<ValueId>,
    pub attributes: Vec<crate::onnx::pb::AttributeProto>,
}

/// An initializer, and whether it is trained.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The name under which the emitted graph takes it and reports its gradient.
    pub name: String,
    pub value: ValueId,
    /// The values in the model file.
    pub initial: Tensor,
    pub trained: bool,
    /// Why it is trained or not, as `damper inspect` prints it.
    pub reason: String,
}

/// A model as a typed graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Version of the standard operator set the nodes are written in.
    pub opset: i64,
    pub values: Vec<Value>,
    pub nodes: Vec<Node>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    pub parameters: Vec<Parameter>,
}

/// A dense tensor in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: TensorData,
}

/// The elements of a [`Tensor`].
#[derive(Clone, PartialEq, Debug)]
pub enum TensorData {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}
