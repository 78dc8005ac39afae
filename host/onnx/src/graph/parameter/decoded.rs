//! The values of initializers.

use super::super::{GraphError, Tensor};
use crate::pb::GraphProto;
use crate::{DType, TensorError, decode_tensor};
use std::collections::HashMap;

/// The initializers of floats, by name.
pub(super) fn decoded(graph: &GraphProto) -> Result<HashMap<&str, Tensor>, GraphError> {
    let floats = graph.initializer.iter().filter(|proto| DType::from_onnx(proto.data_type).is_ok_and(DType::is_float));
    let read = floats.map(|proto| Ok((proto.name.as_str(), decode_tensor(proto)?)));
    let read: Result<_, TensorError> = read.collect();
    read.map_err(|error| GraphError::Model(error.to_string()))
}
