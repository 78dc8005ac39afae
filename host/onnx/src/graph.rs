//! Typed graph. Every value has a known element type, shape and batch position.
//!
//! [`Graph`] is canonical, so that later stages need to support few forms:
//!
//! - `Constant`, shape arithmetic, and the elementwise and reshaping subgraphs of constants that exporters write are
//!   folded into [`Origin::Constant`].
//! - `Identity` and `Dropout` (at inference) are removed, and their readers read their input. An `Identity` stays only
//!   if a model output would otherwise lose its name: an output that is an input, a parameter or a second output.
//! - `Flatten`, `Squeeze`, `Unsqueeze` and `Reshape` become `Reshape` with one input. Its target is the output value's
//!   shape and batch axis. `Expand` also has one input.
//! - An initializer that several parameters share (an exporter merged equal values) becomes several parameters.
//! - Several initializers with one tied weight become one parameter. A `Transpose` or `Reshape` brings it into the
//!   copies' shapes.
//!
//! Nodes are in topological order, and every node and value leads to an output.
//!
//! This stage is also a privacy check: a graph exists only if no sample can reach another sample's rows. Each
//! operator's rule returns the batch axis of its output along with the shape. It rejects nodes that mix samples and
//! names them.

mod affine;
mod batch;
mod build;
mod error;
mod fold;
mod free_batch;
mod initializers;
mod integers;
mod node;
mod opaque;
mod options;
mod parameter;
mod print;
mod query;
mod refused;
mod rules;
mod shape;
mod standard;
mod support;
mod types;

pub use crate::{DType, Tensor, TensorData};
pub use error::GraphError;
pub use free_batch::free_batch;
pub use initializers::{Initializer, initializers};
pub use opaque::{OpaquePart, OutputShapes, opaque_part};
pub use options::GraphOptions;
pub use parameter::glob;
pub use parameter::quantized::QuantizedTensor;
pub use parameter::retie;
pub use standard::{OpenInput, hoist_weights, open_inputs};
pub use support::{Support, operators, refused_operators, support};
pub use types::{BatchAxis, Graph, Node, Origin, Parameter, Value, ValueId};
