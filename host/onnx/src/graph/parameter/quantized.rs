//! Weights stored as integers with a scale for each channel: results of `DequantizeLinear` on constants.

use super::super::{Tensor, TensorData};
use crate::pb::tensor_proto::{DataLocation, DataType};
use crate::pb::{GraphProto, NodeProto, TensorProto};
use crate::{attr_int, attr_tensor, decode_tensor, find_attr};

/// Weight of 8-bit integers. Element `i` is `(values[i] − zeros[c]) · scales[c]`, rounded once to f32, with `c` the
/// index of `i` along the channel axis. Unsigned integers are stored minus 128.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedTensor {
    /// Extents.
    pub shape: Vec<usize>,
    /// Integers in row-major order.
    pub values: Vec<i8>,
    /// One scale for all elements, or one for each channel.
    pub scales: Vec<f32>,
    /// Zero points, as many as `scales`.
    pub zeros: Vec<i8>,
    /// Number of elements in the axes after the channel axis.
    pub inner: usize,
}

/// Decoded integer weight.
pub(super) struct Read {
    /// Elements as floats.
    pub tensor: Tensor,
    /// Stored form. `None` for 32-bit integers.
    pub quantized: Option<QuantizedTensor>,
    /// Reason why it is not trained.
    pub reason: String,
}

/// Stored integers.
struct Integers {
    shape: Vec<usize>,
    values: Vec<i32>,
    data_type: DataType,
}

/// Returns true if `tensor` has 8-bit integers, which only `DequantizeLinear` reads.
pub(in crate::graph) fn is_quantized(tensor: &TensorProto) -> bool {
    [DataType::Int8, DataType::Uint8].iter().any(|of| *of as i32 == tensor.data_type)
}

/// Weight that `node`, a `DequantizeLinear`, computes. `None` if its input is not an integer constant. An error is the
/// reason why it cannot be read.
pub(super) fn read(graph: &GraphProto, node: &NodeProto) -> Option<Result<Read, String>> {
    let x = stored(graph, node.input.first()?)?;
    let data_type = DataType::try_from(x.data_type).ok()?;
    if !matches!(data_type, DataType::Int8 | DataType::Uint8 | DataType::Int32) {
        return None;
    }
    let scale = stored(graph, node.input.get(1)?)?;
    let zero = match node.input.get(2).map(String::as_str) {
        None | Some("") => None,
        Some(name) => Some(stored(graph, name)?),
    };
    Some(weight(node, &x, &scale, zero.as_ref()))
}

/// Initializer, or value of a `Constant`.
fn stored(graph: &GraphProto, name: &str) -> Option<TensorProto> {
    if let Some(tensor) = graph.initializer.iter().find(|tensor| tensor.name == name) {
        return Some(tensor.clone());
    }
    let is_it =
        |node: &&NodeProto| node.op_type == "Constant" && node.output.first().is_some_and(|output| output == name);
    let constant = graph.node.iter().find(is_it)?;
    match find_attr(&constant.attribute, "value_float") {
        Some(attribute) => Some(crate::make_tensor_f32(name, &[], &[attribute.f])),
        None => attr_tensor(&constant.attribute, "value").cloned(),
    }
}

fn weight(node: &NodeProto, x: &TensorProto, scale: &TensorProto, zero: Option<&TensorProto>) -> Result<Read, String> {
    if attr_int(&node.attribute, "block_size", 0) != 0 {
        return Err("its scales are of blocks; quantise with one scale for a channel, or for all".into());
    }
    let x = integers(x)?;
    let scale = decode_tensor(scale).map_err(|error| error.to_string())?;
    let scales = scale.as_f32().ok_or("its scale is not float32; export the model in float32")?.to_vec();
    if scales.iter().any(|scale| !scale.is_finite()) {
        return Err("a scale of it is not finite; quantise the model again".into());
    }
    let zeros = match zero.map(integers).transpose()? {
        Some(zero) if zero.data_type != x.data_type => {
            return Err("its zero points are of another type than its integers; quantise the model again".into());
        }
        Some(zero) => zero.values,
        None => vec![0; scales.len()],
    };
    let inner = match scale.shape.len() {
        _ if scales.len() == 1 && scale.shape.len() < 2 => x.values.len(),
        1 => {
            let (axis, rank) = (attr_int(&node.attribute, "axis", 1), x.shape.len());
            let from_start = if axis < 0 { axis + rank as i64 } else { axis };
            let axis = usize::try_from(from_start).ok().filter(|axis| *axis < rank);
            let axis = axis.ok_or_else(|| format!("axis {from_start} is not one of {rank}"))?;
            if x.shape[axis] != scales.len() {
                return Err(format!("it has {} scales for {} channels", scales.len(), x.shape[axis]));
            }
            x.shape[axis + 1..].iter().product()
        }
        _ => return Err("its scale is neither one number nor one for each channel".into()),
    };
    if zeros.len() != scales.len() {
        return Err(format!("it has {} zero points and {} scales", zeros.len(), scales.len()));
    }
    let element = |(at, value): (usize, &i32)| {
        let channel = at.checked_div(inner).unwrap_or(0) % scales.len();
        value.wrapping_sub(zeros[channel]) as f32 * scales[channel]
    };
    let data = TensorData::F32(x.values.iter().enumerate().map(element).collect());
    let reason = format!(
        "not trained: {} with {} scale{}; rounded weights have no gradient",
        x.data_type.as_str_name().to_ascii_lowercase(),
        scales.len(),
        if scales.len() == 1 { "" } else { "s" }
    );
    let shift = if x.data_type == DataType::Uint8 { 128 } else { 0 };
    let bytes =
        |values: &[i32]| values.iter().map(|value| i8::try_from(value - shift).ok()).collect::<Option<Vec<i8>>>();
    let quantized = (x.data_type != DataType::Int32).then(|| (bytes(&x.values), bytes(&zeros)));
    let quantized = match quantized {
        Some((Some(values), Some(zeros))) => {
            Some(QuantizedTensor { shape: x.shape.clone(), values, scales, zeros, inner })
        }
        Some(_) => return Err("its integers are no bytes: the file is damaged, export it again".into()),
        None => None,
    };
    Ok(Read { tensor: Tensor { shape: x.shape, data }, quantized, reason })
}

fn integers(tensor: &TensorProto) -> Result<Integers, String> {
    let length =
        || format!("'{}' declares the shape {:?} but holds other data: export it again", tensor.name, tensor.dims);
    if tensor.data_location == Some(DataLocation::External as i32) || !tensor.external_data.is_empty() {
        return Err(format!(
            "'{}' keeps its data in another file, which is not read: save the model as one file",
            tensor.name
        ));
    }
    let data_type = DataType::try_from(tensor.data_type).map_err(|_| length())?;
    let raw = &tensor.raw_data;
    let values: Vec<i32> = match data_type {
        _ if raw.is_empty() => tensor.int32_data.clone(),
        DataType::Int8 => raw.iter().map(|byte| i32::from(*byte as i8)).collect(),
        DataType::Uint8 => raw.iter().map(|byte| i32::from(*byte)).collect(),
        DataType::Int32 if raw.len().is_multiple_of(4) => {
            raw.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
        }
        _ => return Err(length()),
    };
    let extents = tensor.dims.iter().map(|extent| usize::try_from(*extent).ok());
    let shape: Vec<usize> = extents.collect::<Option<_>>().ok_or_else(length)?;
    let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent));
    if count != Some(values.len()) {
        return Err(length());
    }
    Ok(Integers { shape, values, data_type })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{make_attr_int, make_node, make_tensor_f32};

    fn bytes(name: &str, data_type: DataType, dims: &[i64], data: &[u8]) -> TensorProto {
        let (name, dims, raw_data) = (name.into(), dims.to_vec(), data.to_vec().into());
        TensorProto { name, dims, data_type: data_type as i32, raw_data, ..TensorProto::default() }
    }

    fn graph(initializer: Vec<TensorProto>, inputs: &[&str], axis: Option<i64>) -> GraphProto {
        let axis = axis.map(|axis| make_attr_int("axis", axis)).into_iter().collect();
        GraphProto {
            node: vec![make_node("DequantizeLinear", "d", inputs, &["w"], axis)],
            initializer,
            ..GraphProto::default()
        }
    }

    fn elements(graph: &GraphProto) -> Result<Read, String> {
        read(graph, &graph.node[0]).expect("a constant")
    }

    // Signed and unsigned, with one scale or one per channel along either axis, with and without zero points.
    #[test]
    fn elements_match_definition() {
        let scales = || make_tensor_f32("s", &[2], &[0.5, -0.25]);
        let signed = bytes("q", DataType::Int8, &[2, 2], &[0x80, 0xff, 0, 127]);
        let read = elements(&graph(vec![signed.clone(), scales()], &["q", "s"], Some(0))).unwrap();
        assert_eq!(read.tensor.as_f32().unwrap(), [-64.0, -0.5, -0.0, -31.75]);
        let read = elements(&graph(vec![signed.clone(), scales()], &["q", "s"], Some(-1))).unwrap();
        assert_eq!(read.tensor.as_f32().unwrap(), [-64.0, 0.25, 0.0, -31.75]);
        assert_eq!(read.quantized.unwrap().inner, 1);
        let unsigned = bytes("q", DataType::Uint8, &[2, 2], &[0, 255, 7, 128]);
        let zeros = bytes("z", DataType::Uint8, &[2], &[128, 7]);
        let read = elements(&graph(vec![unsigned, scales(), zeros], &["q", "s", "z"], Some(0))).unwrap();
        assert_eq!(read.tensor.as_f32().unwrap(), [-64.0, 63.5, 0.0, -30.25]);
        let quantized = read.quantized.unwrap();
        assert_eq!((quantized.values, quantized.zeros), (vec![-128, 127, -121, 0], vec![0, -121]));
        let one = make_tensor_f32("s", &[], &[2.0]);
        let read = elements(&graph(vec![signed, one], &["q", "s", ""], None)).unwrap();
        assert_eq!(read.tensor.as_f32().unwrap(), [-256.0, -2.0, 0.0, 254.0]);
        assert_eq!(read.reason, "not trained: int8 with 1 scale; rounded weights have no gradient");
        let bias = TensorProto {
            int32_data: vec![1 << 20, -3],
            raw_data: Default::default(),
            ..bytes("q", DataType::Int32, &[2], &[])
        };
        let read = elements(&graph(vec![bias, scales()], &["q", "s"], Some(0))).unwrap();
        assert!(read.tensor.as_f32().unwrap() == [524288.0, 0.75] && read.quantized.is_none());
    }

    // An unreadable weight is an error with a reason. Activations are not handled here.
    #[test]
    fn damaged_weights_are_errors() {
        let scales = || make_tensor_f32("s", &[2], &[0.5, 0.25]);
        let reason = |tensors: Vec<TensorProto>, inputs: &[&str], axis| {
            elements(&graph(tensors, inputs, Some(axis))).err().expect("an error")
        };
        let short = bytes("q", DataType::Int8, &[2, 2], &[1, 2, 3]);
        assert!(reason(vec![short, scales()], &["q", "s"], 0).contains("declares the shape [2, 2]"));
        let whole = || bytes("q", DataType::Int8, &[3, 2], &[1; 6]);
        assert!(reason(vec![whole(), scales()], &["q", "s"], 0).contains("2 scales for 3 channels"));
        assert!(reason(vec![whole(), scales()], &["q", "s"], 2).contains("axis 2 is not one of 2"));
        let zero = bytes("z", DataType::Uint8, &[2], &[0; 2]);
        assert!(reason(vec![whole(), scales(), zero], &["q", "s", "z"], 1).contains("another type"));
        let zero = bytes("z", DataType::Int8, &[1], &[0]);
        assert!(reason(vec![whole(), scales(), zero], &["q", "s", "z"], 1).contains("1 zero points and 2 scales"));
        let infinite = make_tensor_f32("s", &[2], &[0.5, f32::INFINITY]);
        assert!(reason(vec![whole(), infinite], &["q", "s"], 1).contains("not finite"));
        let data = graph(vec![scales()], &["x", "s"], None);
        assert!(read(&data, &data.node[0]).is_none());
    }
}
