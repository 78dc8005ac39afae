//! A typed graph: every value has a known element type, a known shape, and a known place of the batch.
//!
//! [`Graph`] is canonical, so that the stages behind it meet few forms of the same thing:
//!
//! - `Constant`, shape arithmetic and the elementwise and reshaping subgraphs of constants that exporters write are
//!   folded into [`Origin::Constant`];
//! - `Identity` and `Dropout` (at inference) are gone: their readers read what they read (an `Identity` stays only where
//!   a model output would otherwise lose its name: an output that is an input, a parameter or a second output);
//! - `Flatten`, `Squeeze`, `Unsqueeze` and `Reshape` are one operator, `Reshape`, with one input: the target is the
//!   output value's own shape and batch axis. `Expand` likewise has one input;
//! - an initializer that several parameters share (an exporter merged equal values) is several parameters, and several
//!   that hold one tied weight are one, which a `Transpose` or `Reshape` brings into the copies' shapes.
//!
//! Nodes are in topological order, and every node and value leads to an output.
//!
//! The stage is also a privacy check: a graph exists only where no sample can reach another sample's rows. Each
//! operator's rule says where the batch lies in its output, beside the shape, and refuses to mix samples by name.

mod affine;
mod batch;
mod build;
mod error;
mod fold;
mod free_batch;
mod initializers;
mod integers;
mod node;
mod options;
mod parameter;
mod print;
mod quantized;
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
pub use options::GraphOptions;
pub use parameter::glob;
pub use parameter::retie;
pub use quantized::QuantizedTensor;
pub use standard::{OpenInput, hoist_weights, open_inputs};
pub use support::{Support, operators, refused_operators, support};
pub use types::{BatchAxis, Graph, Node, Origin, Parameter, Value, ValueId};
