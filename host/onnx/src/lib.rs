//! ONNX models: files as protobuf, attributes, tensors; and as typed [graphs](graph) with shapes, constants and the batch axis.
//!
//! ```text
//! bytes ─► pb::ModelProto ─► graph::Graph
//! ```
//!
//! Only [`graph`] knows what an operator means.

mod attribute;
mod batch_norm;
mod build;
mod custom;
mod float32;
pub mod graph;
mod label_scale;
mod load;
mod lora;
mod mark;
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod pb;
mod quantize;
mod rewrite;
mod scale_norm;
mod setting;
mod spec;
mod standardize;
mod tensor;
mod trained;

pub use attribute::{attr_float, attr_int, attr_ints, attr_string, attr_strings, attr_tensor, find_attr};
pub use batch_norm::{BatchNormChange, BatchNormFix, Replacement, fix_batch_norm};
pub use build::{
    Extent, data_type, make_attr_float, make_attr_int, make_attr_ints, make_attr_string, make_attr_strings,
    make_attr_tensor, make_node, make_tensor, make_tensor_f32, make_tensor_i64, make_value_info,
};
pub use custom::{AGAIN, CUSTOM_DOMAIN, lower_custom, lower_nodes, lowering, make_custom, rename_tensor};
pub use float32::convert_to_float32;
pub use label_scale::scale_output;
pub use load::node_name;
pub use load::{LoadError, MAX_MODEL_BYTES, decode, encode, load};
pub use lora::{Adapter, Adapters, LoraOptions, add_adapters};
pub use mark::{CLASSES, COLUMNS, metadata, set_metadata};
pub use mark::{is_marked, mark};
pub use mark::{label_scale, set_finished, set_label_scale, set_normalize, set_run, set_unfinished};
pub use quantize::{QuantizeChange, quantize_weights};
pub use scale_norm::{ScaleChange, add_scale_norms};
pub use setting::SettingError;
pub use spec::{Dim, TensorRef, TensorSpec};
pub use standardize::{WeightChange, standardize_weights};
pub use tensor::{DType, Tensor, TensorData, TensorError, decode_tensor};
pub use trained::split_name;
pub use trained::{TrainedError, write_trained};
