//! ONNX files as protobuf: reading, writing, attributes, tensors. Nothing here knows what an operator means.

pub use tract_onnx::pb;
