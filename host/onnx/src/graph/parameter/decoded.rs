//! Values of initializers.

use super::super::{GraphError, Tensor};
use crate::pb::GraphProto;
use crate::{DType, TensorError, decode_tensor};
use std::collections::HashMap;

/// Float initializers by name.
pub(super) fn decoded(graph: &GraphProto) -> Result<HashMap<&str, Tensor>, GraphError> {
    let floats = graph.initializer.iter().filter(|proto| DType::from_onnx(proto.data_type).is_ok_and(DType::is_float));
    let read = floats.map(|proto| Ok((proto.name.as_str(), decode_tensor(proto)?)));
    let read: Result<_, TensorError> = read.collect();
    read.map_err(|error| GraphError::Model(error.to_string()))
}

/// Returns true if all elements are equal.
pub(super) fn is_uniform(tensor: &Tensor) -> bool {
    let equal = |data: &[f32]| data.windows(2).all(|pair| pair[0] == pair[1]);
    tensor.as_f32().is_some_and(|data| !data.is_empty() && equal(data))
}
