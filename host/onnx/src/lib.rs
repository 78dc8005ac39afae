//! ONNX models: protobuf files, attributes and tensors, and typed [graphs](graph) with shapes, constants and the batch
//! axis.
//!
//! ```text
//! bytes ─► pb::ModelProto ─► graph::Graph
//! ```
//!
//! Only [`graph`] interprets operators.

mod attribute;
mod build;
mod custom;
mod floats;
pub mod graph;
mod load;
mod mark;
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod pb;
mod scopes;
mod setting;
mod source;
mod spec;
mod symmetric;
mod tensor;
mod trained;
mod write;

pub use attribute::{attr_float, attr_int, attr_ints, attr_string, attr_strings, attr_tensor, find_attr};
pub use build::{
    Extent, data_type, make_attr_float, make_attr_int, make_attr_ints, make_attr_string, make_attr_strings,
    make_attr_tensor, make_node, make_tensor, make_tensor_f32, make_tensor_i64, make_value_info, node_name,
};
pub use custom::{AGAIN, CUSTOM_DOMAIN, lower_custom, lower_nodes, lowering, make_custom, rename_tensor};
pub use floats::Floats;
pub use load::{LoadError, MAX_MODEL_BYTES, decode, load};
pub use mark::{CLASSES, COLUMNS, metadata, set_metadata};
pub use mark::{is_marked, mark};
pub use mark::{label_scale, normalize, set_finished, set_label_scale, set_normalize, set_run, set_unfinished};
pub use scopes::{stored_tensors, unique_names};
pub use setting::SettingError;
pub use source::restore as restore_source;
pub use spec::{Dim, TensorRef, TensorSpec};
pub use symmetric::make_pads_symmetric;
pub use tensor::{DType, Tensor, TensorData, TensorError, decode_tensor};
pub use trained::split_name;
pub use trained::{TrainedError, write_trained};
pub use write::{WeightFile, encode, split_weights, write};
