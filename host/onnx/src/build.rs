//! Builders for protobuf messages, used by the emitter and by tests.

use super::pb::attribute_proto::AttributeType;
use super::pb::tensor_proto::DataType;
use super::pb::tensor_shape_proto::{Dimension, dimension};
use super::pb::{AttributeProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto};
use super::tensor::{DType, Tensor, TensorData};

/// Extent of an axis in a declared shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Symbolic batch dimension, written `N`.
    Batch,
    /// Batch merged with other axes. It has this many entries per sample and is written `n*N`.
    Merged(usize),
    /// Fixed extent.
    Fixed(usize),
}

/// Node of the standard domain.
pub fn make_node(
    op: &str,
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        op_type: op.to_string(),
        name: name.to_string(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        attribute: attributes,
        ..NodeProto::default()
    }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: name.to_string(), r#type: kind as i32, ..AttributeProto::default() }
}

/// Integer attribute.
pub fn make_attr_int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: value, ..attribute(name, AttributeType::Int) }
}

/// Integer list attribute.
pub fn make_attr_ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, AttributeType::Ints) }
}

/// Float attribute.
pub fn make_attr_float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: value, ..attribute(name, AttributeType::Float) }
}

/// String attribute.
pub fn make_attr_string(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: value.as_bytes().to_vec(), ..attribute(name, AttributeType::String) }
}

/// String list attribute.
pub fn make_attr_strings(name: &str, values: &[&str]) -> AttributeProto {
    let strings = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    AttributeProto { strings, ..attribute(name, AttributeType::Strings) }
}

/// Tensor attribute, such as the value of a `Constant`.
pub fn make_attr_tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(value), ..attribute(name, AttributeType::Tensor) }
}

/// Tensor with its elements as raw little-endian bytes.
pub fn make_tensor(name: &str, tensor: &Tensor) -> TensorProto {
    let raw_data = match &tensor.data {
        TensorData::F32(data) => data.to_little_endian(),
        TensorData::F64(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TensorData::I32(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TensorData::I64(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TensorData::Bool(data) => data.iter().map(|&x| u8::from(x)).collect(),
    };
    TensorProto {
        name: name.to_string(),
        dims: tensor.shape.iter().map(|&d| d as i64).collect(),
        data_type: data_type(tensor.data.dtype()) as i32,
        raw_data,
        ..TensorProto::default()
    }
}

/// float32 tensor.
pub fn make_tensor_f32(name: &str, shape: &[usize], data: &[f32]) -> TensorProto {
    make_tensor(name, &Tensor { shape: shape.to_vec(), data: TensorData::F32(data.into()) })
}

/// int64 tensor.
pub fn make_tensor_i64(name: &str, shape: &[usize], data: &[i64]) -> TensorProto {
    make_tensor(name, &Tensor { shape: shape.to_vec(), data: TensorData::I64(data.to_vec()) })
}

/// Name, element type and shape of a graph input or output.
pub fn make_value_info(name: &str, dtype: DType, shape: &[Extent]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|extent| Dimension {
            value: Some(match extent {
                Extent::Batch => dimension::Value::DimParam("N".to_string()),
                Extent::Merged(n) => dimension::Value::DimParam(format!("{n}*N")),
                Extent::Fixed(d) => dimension::Value::DimValue(*d as i64),
            }),
            ..Dimension::default()
        })
        .collect();
    let tensor = type_proto::Tensor { elem_type: data_type(dtype) as i32, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() }),
        ..ValueInfoProto::default()
    }
}

/// ONNX code of an element type.
pub fn data_type(dtype: DType) -> DataType {
    match dtype {
        DType::F32 => DataType::Float,
        DType::F64 => DataType::Double,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::Bool => DataType::Bool,
    }
}

/// Name of node `index` in messages: its own name, or `OP_INDEX`.
pub fn node_name(node: &NodeProto, index: usize) -> String {
    if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.clone() }
}
