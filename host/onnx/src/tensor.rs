//! Tensors in memory, decoded from a `TensorProto`.

use super::floats::Floats;
use super::pb::TensorProto;
use super::pb::tensor_proto::{DataLocation, DataType};

/// Element types in the differentiated graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Booleans.
    Bool,
}

impl DType {
    /// Type for an ONNX element type code. The error is its ONNX name if it is not supported.
    pub fn from_onnx(elem_type: i32) -> Result<DType, String> {
        match DataType::try_from(elem_type) {
            Ok(DataType::Float) => Ok(DType::F32),
            Ok(DataType::Double) => Ok(DType::F64),
            Ok(DataType::Int32) => Ok(DType::I32),
            Ok(DataType::Int64) => Ok(DType::I64),
            Ok(DataType::Bool) => Ok(DType::Bool),
            Ok(other) => Err(other.as_str_name().to_ascii_lowercase()),
            Err(_) => Err(format!("number {elem_type}")),
        }
    }

    /// ONNX name of the type, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::Bool => "bool",
        }
    }

    /// Returns true if values of this type can have a gradient.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

/// Dense tensor in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Extents. Empty for a scalar.
    pub shape: Vec<usize>,
    /// Elements, as many as the shape has.
    pub data: TensorData,
}

/// Elements of a [`Tensor`].
#[derive(Clone, PartialEq, Debug)]
pub enum TensorData {
    /// Elements of [`DType::F32`].
    F32(Floats),
    /// Elements of [`DType::F64`].
    F64(Vec<f64>),
    /// Elements of [`DType::I32`].
    I32(Vec<i32>),
    /// Elements of [`DType::I64`].
    I64(Vec<i64>),
    /// Elements of [`DType::Bool`].
    Bool(Vec<bool>),
}

impl TensorData {
    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            TensorData::F32(_) => DType::F32,
            TensorData::F64(_) => DType::F64,
            TensorData::I32(_) => DType::I32,
            TensorData::I64(_) => DType::I64,
            TensorData::Bool(_) => DType::Bool,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            TensorData::F32(data) => data.len(),
            TensorData::F64(data) => data.len(),
            TensorData::I32(data) => data.len(),
            TensorData::I64(data) => data.len(),
            TensorData::Bool(data) => data.len(),
        }
    }

    /// Returns true if the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tensor {
    /// The elements, if they are float32.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.data {
            TensorData::F32(data) => Some(data),
            _ => None,
        }
    }
}

/// Maximum number of axes, and maximum extent.
const MAX_RANK: usize = 32;
const MAX_EXTENT: usize = 1 << 31;

/// Error of a `TensorProto` that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The elements are in another file.
    #[error(
        "tensor '{0}' keeps its data in another file, which is not read: save the model as one file \
         (torch.onnx.export(..., external_data=False), or onnx.save_model(model, path, save_as_external_data=False))"
    )]
    External(String),
    /// The elements are missing.
    #[error(
        "tensor '{name}' declares the shape {dims:?} but has no data: its data was in another file or was left out; save the \
         model as one file with its weights (torch.onnx.export(..., external_data=False))"
    )]
    Absent {
        /// Name of the tensor.
        name: String,
        /// Declared extents.
        dims: Vec<i64>,
    },
    /// The element type is not supported.
    #[error("tensor '{name}' has elements of type {dtype}, which is not read: export the model in float32")]
    Type {
        /// Name of the tensor.
        name: String,
        /// ONNX name of its element type.
        dtype: String,
    },
    /// Shape and data disagree.
    #[error("tensor '{name}' declares the shape {dims:?} but holds other data: the file is damaged, export it again")]
    Length {
        /// Name of the tensor.
        name: String,
        /// Declared extents.
        dims: Vec<i64>,
    },
}

/// Decodes a tensor from `raw_data` or from the field of its type.
///
/// # Errors
/// [`TensorError`] if the data is in another file, has an unsupported type, or does not have the length of the shape.
pub fn decode_tensor(proto: &TensorProto) -> Result<Tensor, TensorError> {
    let name = || proto.name.clone();
    if proto.data_location == Some(DataLocation::External as i32) || !proto.external_data.is_empty() {
        return Err(TensorError::External(name()));
    }
    let dtype = DType::from_onnx(proto.data_type).map_err(|dtype| TensorError::Type { name: name(), dtype })?;
    let length = || TensorError::Length { name: name(), dims: proto.dims.clone() };
    let shape: Vec<usize> =
        proto.dims.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| length())?;
    // Each extent is limited, too. Next to a zero extent, any other would pass the check of the product.
    let count = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|_| shape.len() <= MAX_RANK && shape.iter().all(|&d| d <= MAX_EXTENT))
        .ok_or_else(length)?;
    let raw = &proto.raw_data;
    let data = match dtype {
        DType::F32 if raw.is_empty() => TensorData::F32(proto.float_data.as_slice().into()),
        DType::F32 => TensorData::F32(Floats::of_little_endian(raw)),
        DType::F64 => TensorData::F64(read(raw, &proto.double_data, f64::from_le_bytes, |&x| x)),
        DType::I32 => TensorData::I32(read(raw, &proto.int32_data, i32::from_le_bytes, |&x| x)),
        DType::I64 => TensorData::I64(read(raw, &proto.int64_data, i64::from_le_bytes, |&x| x)),
        DType::Bool => TensorData::Bool(read(raw, &proto.int32_data, |[x]: [u8; 1]| x != 0, |&x| x != 0)),
    };
    let exact = raw.is_empty() || raw.len().checked_rem(count).is_none_or(|rest| rest == 0);
    if count > 0 && raw.is_empty() && data.is_empty() {
        return Err(TensorError::Absent { name: name(), dims: proto.dims.clone() });
    }
    if data.len() != count || !exact {
        return Err(length());
    }
    Ok(Tensor { shape, data })
}

fn read<T, S, const W: usize>(raw: &[u8], typed: &[S], bytes: fn([u8; W]) -> T, element: fn(&S) -> T) -> Vec<T> {
    if raw.is_empty() {
        return typed.iter().map(element).collect();
    }
    raw.as_chunks::<W>().0.iter().map(|chunk| bytes(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{make_tensor, make_tensor_f32, pb::StringStringEntryProto};

    #[test]
    fn every_element_type_reads_back_as_written() {
        for data in [
            TensorData::F32(vec![1.5, -2.0].into()),
            TensorData::F64(vec![1.5, -2.0]),
            TensorData::I32(vec![7, -8]),
            TensorData::I64(vec![7, -8]),
            TensorData::Bool(vec![true, false]),
        ] {
            let tensor = Tensor { shape: vec![2, 1], data };
            assert_eq!(decode_tensor(&make_tensor("t", &tensor)).unwrap(), tensor);
        }
    }

    #[test]
    fn typed_fields_and_raw_bytes_read_alike() {
        let raw = make_tensor_f32("t", &[3], &[1.0, 2.0, 3.0]);
        let mut typed = raw.clone();
        typed.raw_data.clear();
        typed.float_data = vec![1.0, 2.0, 3.0];
        assert_eq!(decode_tensor(&raw).unwrap(), decode_tensor(&typed).unwrap());
    }

    // Tensor data of another length than the shape is an error.
    #[test]
    fn data_length_must_match_shape() {
        let whole = make_tensor_f32("w", &[3], &[1.0, 2.0, 3.0]);
        for keep in 1..12 {
            let mut cut = whole.clone();
            cut.raw_data.truncate(keep);
            assert!(matches!(decode_tensor(&cut), Err(TensorError::Length { .. })), "{keep} bytes");
        }
        let none = TensorProto { raw_data: Default::default(), ..whole.clone() };
        assert!(matches!(decode_tensor(&none), Err(TensorError::Absent { .. })));
        for dims in [vec![-3], vec![i64::MAX, i64::MAX], vec![4]] {
            let bad = TensorProto { dims, ..whole.clone() };
            assert!(matches!(decode_tensor(&bad), Err(TensorError::Length { .. })));
        }
    }

    // The error for external data names the export option.
    #[test]
    fn external_data_error_names_option() {
        let entry = StringStringEntryProto { key: "location".into(), value: "w.data".into() };
        let proto = TensorProto { external_data: vec![entry], ..make_tensor_f32("w", &[1], &[1.0]) };
        let message = decode_tensor(&proto).unwrap_err().to_string();
        assert!(message.starts_with("tensor 'w' keeps its data in another file"), "{message}");
        assert!(message.contains("external_data=False"), "{message}");
    }

    #[test]
    fn half_precision_is_refused_by_name() {
        let proto = TensorProto { data_type: DataType::Float16 as i32, ..make_tensor_f32("w", &[1], &[1.0]) };
        assert_eq!(
            decode_tensor(&proto).unwrap_err().to_string(),
            "tensor 'w' has elements of type float16, which is not read: export the model in float32"
        );
    }
}
