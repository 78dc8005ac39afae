//! Malicious bytes never cause a panic.

use super::*;
use damper_onnx::{make_attr_int as int, make_attr_ints as ints};
use proptest::prelude::*;

/// Model that uses every feature once.
fn sample() -> ModelProto {
    Sketch::new(17, &[N, 2, 6, 6])
        .weight("w", &[4, 2, 3, 3])
        .weight("b", &[4])
        .weight("fc", &[16, 3])
        .ints("flat", &[0, -1])
        .ints("starts", &[0])
        .ints("ends", &[16])
        .ints("axes", &[1])
        .node("Conv", &["x", "w", "b"], "c", &[ints("pads", &[0, 0, 0, 0]), ints("strides", &[1, 1])])
        .node("MaxPool", &["c"], "p", &[ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])])
        .node("Shape", &["p"], "s", &[])
        .node("Reshape", &["p", "flat"], "f", &[])
        .node("Slice", &["f", "starts", "ends", "axes"], "sl", &[])
        .node("MatMul", &["sl", "fc"], "m", &[])
        .node("Softmax", &["m"], "y", &[int("axis", 1)])
        .returns(&["y"])
}

fn survives(bytes: &[u8]) {
    if let Ok(model) = onnx::decode("m.onnx", bytes) {
        let _ = graph(&model);
        let _ = damper_onnx::graph::initializers(&model, &GraphOptions::default());
    }
}

// A truncated model is an error or still a model.
#[test]
fn truncated_model_is_error_or_model() {
    let bytes = onnx::encode(&sample());
    assert!(graph(&onnx::decode("m.onnx", &bytes).unwrap()).is_ok());
    for length in 0..bytes.len() {
        survives(&bytes[..length]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_changed_byte_never_panics(at in 0usize..1 << 16, to: u8, also in 0usize..1 << 16, and: u8) {
        let mut bytes = onnx::encode(&sample());
        let length = bytes.len();
        bytes[at % length] = to;
        bytes[also % length] = and;
        survives(&bytes);
    }

    #[test]
    fn an_extreme_number_never_panics(
        pick in 0usize..64,
        value in prop::sample::select(vec![
            i64::MIN, i64::MIN + 1, -(1 << 40), -(1 << 31), -2, -1, 0, 1, 2, 3, 1 << 20, 1 << 31, 1 << 40, i64::MAX,
        ]),
        entry in 0usize..4,
    ) {
        let mut model = sample();
        let graph = model.graph.as_mut().unwrap();
        let mut numbers: Vec<&mut i64> = Vec::new();
        for node in &mut graph.node {
            for attribute in &mut node.attribute {
                numbers.push(&mut attribute.i);
                numbers.extend(attribute.ints.iter_mut());
            }
        }
        let mut tensors = Vec::new();
        for tensor in &mut graph.initializer {
            numbers.extend(tensor.dims.iter_mut());
            if tensor.data_type == 7 {
                tensors.push(&mut tensor.raw_data);
            }
        }
        let count = numbers.len();
        if pick % (count + 4) < count {
            *numbers[pick % (count + 4)] = value;
        } else {
            let raw = &mut tensors[pick % 4];
            let mut data = raw.to_vec();
            let start = entry % (data.len() / 8) * 8;
            data[start..start + 8].copy_from_slice(&value.to_le_bytes());
            **raw = data.into();
        }
        survives(&onnx::encode(&model));
    }
}

// The error for a parameter without elements names it.
#[test]
fn empty_parameter_error_names_it() {
    let error = graph(
        &Sketch::new(17, &[N, 3])
            .weight("none", &[2, 0])
            .node("ReduceProd", &["none"], "one", &[ints("axes", &[1]), int("keepdims", 0)])
            .node("ReduceSum", &["one"], "sum", &[int("keepdims", 0)])
            .node("Mul", &["x", "sum"], "y", &[])
            .returns(&["y"]),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it reads 'none', which has no elements"), "{error}");
}
