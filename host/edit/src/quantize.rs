//! Quantises frozen weights to 8-bit integers: symmetric, with a scale of `max |w| / 127` for each output channel.
//!
//! A `DequantizeLinear` with the weight's name replaces the initializer, so all readers get the rounded weight.

use super::rewrite::readers;
use damper_onnx::graph::glob;
use damper_onnx::pb::tensor_proto::DataType;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use damper_onnx::{SettingError, attr_int, decode_tensor, make_attr_int, make_node, make_tensor_f32, node_name};

/// Largest integer. −128 is not used, so the range is symmetric.
const MOST: f32 = 127.0;

/// Selected weight, with the result.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizeChange {
    /// First node that reads it.
    pub node: String,
    /// Operator of that node.
    pub operator: String,
    /// Name of the weight.
    pub weight: String,
    /// Number of channels and maximum error of an element, or the reason why the weight stays unchanged.
    pub to: Result<(usize, f32), &'static str>,
}

/// Quantises the float32 initializers that a pattern of `int8` matches to 8-bit integers. All their readers must be
/// products, convolutions and lookups. The outputs change. Such a weight has no gradient. Returns a change for each
/// match, in the model's order.
///
/// # Errors
///
/// Fails if a pattern matches no float32 initializer, or if the opset does not support per-channel scales.
pub fn quantize_weights(model: &mut ModelProto, int8: &[String]) -> Result<Vec<QuantizeChange>, SettingError> {
    let opset =
        model.opset_import.iter().find(|set| matches!(&*set.domain, "" | "ai.onnx")).map_or(0, |set| set.version);
    let Some(graph) = model.graph.as_mut() else { return Ok(vec![]) };
    let is_float = |tensor: &&TensorProto| tensor.data_type == DataType::Float as i32;
    for pattern in int8 {
        let one = std::slice::from_ref(pattern);
        if opset < 13 {
            return Err(SettingError::new(
                "int8",
                format!("'{pattern}'"),
                "needs operator set 13 or later; export the model again",
            ));
        }
        if !graph.initializer.iter().filter(is_float).any(|tensor| glob::any(one, &tensor.name)) {
            let problem = "matches no float32 initializer; damper inspect lists their names";
            return Err(SettingError::new("int8", format!("'{pattern}'"), problem));
        }
    }
    let matching = graph.initializer.iter().filter(is_float).filter(|tensor| glob::any(int8, &tensor.name));
    let names: Vec<String> = matching.map(|tensor| tensor.name.clone()).collect();
    let mut changes = Vec::new();
    for weight in names {
        let reads = readers(graph, &weight);
        let Some(&(first, _)) = reads.first() else { continue };
        let (node, operator) = (node_name(&graph.node[first], first), graph.node[first].op_type.clone());
        let to = rounded(graph, &weight, &reads);
        let to = to.map(|Rounded { tensors, node, channels, error }| {
            graph.initializer.retain(|tensor| tensor.name != weight);
            graph.input.retain(|input| input.name != weight);
            graph.initializer.extend(tensors);
            graph.node.insert(0, node);
            (channels, error)
        });
        changes.push(QuantizeChange { node, operator, weight, to });
    }
    if changes.iter().any(|change| change.to.is_ok()) {
        // Before IR version 4, every initializer is also an input.
        model.ir_version = model.ir_version.max(4);
    }
    Ok(changes)
}

struct Rounded {
    tensors: [TensorProto; 2],
    node: NodeProto,
    channels: usize,
    error: f32,
}

fn rounded(graph: &GraphProto, weight: &str, reads: &[(usize, usize)]) -> Result<Rounded, &'static str> {
    let proto = graph.initializer.iter().find(|tensor| tensor.name == weight).ok_or("it is no initializer")?;
    let tensor = decode_tensor(proto).map_err(|_| "its data cannot be read")?;
    let (Some(data), shape) = (tensor.as_f32(), &tensor.shape) else { return Err("it is not float32") };
    if shape.len() < 2 || data.is_empty() {
        return Err("it has one number for a channel");
    }
    if data.iter().any(|x| !x.is_finite()) {
        return Err("it holds numbers that are not finite");
    }
    let axes: Option<Vec<usize>> =
        reads.iter().map(|&(node, slot)| channel_axis(&graph.node[node], slot, shape.len())).collect();
    let axis = axes.as_deref().and_then(<[usize]>::first).copied();
    let axis = axis.ok_or("a node reads it that is no product, convolution or look-up")?;
    let own = |part: &str| format!("{weight}/{part}");
    let names = [own("int8"), own("scale")];
    let taken = |name: &String| {
        graph.initializer.iter().any(|tensor| tensor.name == *name)
            || graph.node.iter().any(|node| node.output.contains(name))
    };
    if names.iter().any(taken) {
        return Err("the model has tensors of the names that its integers would have");
    }
    let (channels, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let channel = |at: usize| at / inner % channels;
    let mut scales = vec![0.0f32; channels];
    for (at, x) in data.iter().enumerate() {
        let scale = &mut scales[channel(at)];
        *scale = scale.max(x.abs() / MOST);
    }
    // For a zero channel, any scale is valid.
    scales.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = 1.0);
    let integer = |(at, x): (usize, &f32)| (x / scales[channel(at)]).round_ties_even().clamp(-MOST, MOST) as i8;
    let values: Vec<i8> = data.iter().enumerate().map(integer).collect();
    let errors =
        data.iter().zip(&values).enumerate().map(|(at, (x, q))| (x - f32::from(*q) * scales[channel(at)]).abs());
    let error = errors.fold(0.0, f32::max);
    let [integers, scale] = names;
    let node_axis = make_attr_int("axis", axis as i64);
    let node =
        make_node("DequantizeLinear", &own("DequantizeLinear"), &[&integers, &scale], &[weight], vec![node_axis]);
    let integers = TensorProto {
        name: integers,
        dims: proto.dims.clone(),
        data_type: DataType::Int8 as i32,
        raw_data: values.iter().map(|value| *value as u8).collect(),
        ..TensorProto::default()
    };
    Ok(Rounded { tensors: [integers, make_tensor_f32(&scale, &[channels], &scales)], node, channels, error })
}

/// Axis of a weight's output channels, in a node that reads it at input `slot`.
fn channel_axis(node: &NodeProto, slot: usize, rank: usize) -> Option<usize> {
    let transposed = |name: &str| attr_int(&node.attribute, name, 0) != 0;
    match (node.op_type.as_str(), slot) {
        ("Conv", 1) | ("Gather", 0) => Some(0),
        ("ConvTranspose", 1) => Some(1),
        ("Gemm", 0) => Some(usize::from(transposed("transA"))),
        ("Gemm", 1) => Some(usize::from(!transposed("transB"))),
        ("MatMul", 0) => Some(rank - 2),
        ("MatMul", 1) => Some(rank - 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_onnx::graph::{Graph, GraphOptions};
    use damper_onnx::pb::OperatorSetIdProto;
    use damper_onnx::{DType, Extent, make_value_info};

    fn model() -> ModelProto {
        let info = |name, extent| make_value_info(name, DType::F32, &[Extent::Batch, Extent::Fixed(extent)]);
        let turned = vec![make_attr_int("transB", 1)];
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            graph: Some(GraphProto {
                node: vec![
                    make_node("Gemm", "first", &["x", "a", "b"], &["h"], turned),
                    make_node("MatMul", "second", &["h", "c"], &["y"], vec![]),
                ],
                input: vec![info("x", 2)],
                output: vec![info("y", 2)],
                initializer: vec![
                    make_tensor_f32("a", &[3, 2], &[1.27, -0.01, 0.0, 0.0, 0.004, 0.6]),
                    make_tensor_f32("b", &[3], &[0.1, 0.2, 0.3]),
                    make_tensor_f32("c", &[3, 2], &[0.5, 0.1, 0.2, -0.3, 0.3, 0.4]),
                ],
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        }
    }

    // Weights become integers with per-channel scales under the same names, and biases stay. The graph has the values
    // of the integers.
    #[test]
    fn weights_are_rounded_by_channel() {
        let mut model = model();
        let changes = quantize_weights(&mut model, &["a".into(), "b".into()]).unwrap();
        let [a, b] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((&*a.weight, &*a.node, a.to.unwrap().0), ("a", "first", 3));
        assert!(a.to.unwrap().1 <= 0.6 / 127.0 / 2.0 * 1.01, "{a:?}");
        assert_eq!(b.to, Err("it has one number for a channel"));
        let graph = Graph::from_model(&model, &GraphOptions::default()).unwrap();
        let parameter = graph.parameters.iter().find(|parameter| parameter.name == "a").unwrap();
        let quantized = parameter.quantized.as_ref().unwrap();
        assert_eq!((&quantized.values[..], quantized.inner), (&[127, -1, 0, 0, 1, 127][..], 2));
        assert!(!parameter.trained && parameter.reason.contains("int8 with 3 scales"), "{}", parameter.reason);
        let trained: Vec<&str> = graph.trained().map(|parameter| &*parameter.name).collect();
        assert_eq!(trained, ["b", "c"]);
    }

    #[test]
    fn columns_of_a_right_side_are_channels() {
        let mut model = model();
        quantize_weights(&mut model, &["c".into()]).unwrap();
        let graph = Graph::from_model(&model, &GraphOptions::default()).unwrap();
        let parameter = graph.parameters.iter().find(|parameter| parameter.name == "c").unwrap();
        let quantized = parameter.quantized.as_ref().unwrap();
        assert_eq!((quantized.scales.len(), quantized.inner), (2, 1));
        assert_eq!(quantized.values[..], [127, 32, 51, -95, 76, 127]);
    }

    // A missing or unsupported weight is reported, and nothing else changes.
    #[test]
    fn other_weights_stay() {
        let mut changed = model();
        assert!(quantize_weights(&mut changed, &["z*".into()]).unwrap_err().to_string().contains("'z*'"));
        let node = make_node("Add", "third", &["y", "c"], &["z"], vec![]);
        changed.graph.as_mut().unwrap().node.push(node);
        let before = changed.clone();
        let changes = quantize_weights(&mut changed, &["c".into()]).unwrap();
        assert!(changes[0].to.unwrap_err().contains("no product"));
        assert_eq!(changed, before);
        let mut old = model();
        old.opset_import[0].version = 12;
        assert!(quantize_weights(&mut old, &["a".into()]).unwrap_err().to_string().contains("operator set 13"));
    }
}
