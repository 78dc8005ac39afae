//! ONNX files as protobuf: reading, writing, attributes, tensors. Nothing here knows what an operator means.

mod attribute;
mod build;
mod load;
mod mark;
mod tensor;
mod trained;

pub use attribute::{attr_float, attr_int, attr_ints, attr_string, attr_tensor, find_attr};
pub use build::{
    Extent, data_type, make_attr_float, make_attr_int, make_attr_ints, make_attr_string, make_attr_tensor, make_node,
    make_tensor, make_tensor_f32, make_tensor_i64, make_value_info,
};
pub(crate) use load::node_name;
pub use load::{LoadError, MAX_MODEL_BYTES, decode, encode, load};
pub(crate) use mark::set_run;
pub use mark::{is_marked, mark};
pub use tensor::{DType, Tensor, TensorData, TensorError, decode_tensor};
pub use tract_onnx::pb;
pub(crate) use trained::split_name;
pub use trained::{TrainedError, write_trained};
