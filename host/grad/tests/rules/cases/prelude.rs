//! Building blocks of the cases.

pub use super::super::builder::{BATCH_FIRST, Case, GraphBuilder};
pub use damper_onnx::graph::{BatchAxis, DType, ValueId};
pub use damper_onnx::pb::AttributeProto;
pub use damper_onnx::{data_type, make_attr_float, make_attr_int, make_attr_ints, make_attr_string};
