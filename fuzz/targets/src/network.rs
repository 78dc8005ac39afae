//! ONNX models that are well formed as files. The bytes choose nodes, initializers and attributes, so that the code
//! after the decoder is reached.

use crate::fuzz_bytes::FuzzBytes;
use damper::onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use damper::onnx::{
    DType, Extent, make_attr_float, make_attr_int, make_attr_ints, make_attr_string, make_node, make_tensor_f32,
    make_tensor_i64, make_value_info,
};

/// Operators that have a rule, operators that are refused, and others.
#[rustfmt::skip]
const OPERATORS: &[&str] = &[
    "Abs", "Add", "And", "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Concat",
    "Constant", "ConstantOfShape", "Conv", "ConvTranspose", "Cos", "CumSum", "DepthToSpace", "Div", "Dropout", "Einsum", "Elu", "Equal",
    "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "If",
    "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM", "LayerNormalization", "LeakyRelu", "Less", "Log", "LogSoftmax",
    "LpNormalization", "MatMul", "Max", "MaxPool", "Mean", "MeanVarianceNormalization", "Min", "Mish", "Mod", "Mul", "Neg", "NonZero",
    "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize", "Round",
    "ScatterND", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where",
    "Xor",
];

/// Attributes of an integer, of integers, of a number, of a string.
#[rustfmt::skip]
const INT: &[&str] = &[
    "axis", "keepdims", "group", "transA", "transB", "to", "allowzero", "ceil_mode", "count_include_pad", "blocksize", "p", "fmod",
    "exclusive", "reverse", "upper", "batch_dims", "num_outputs", "start", "end", "noop_with_empty_axes", "num_groups", "storage_order",
    "across_channels", "select_last_index", "antialias", "exclude_outside", "k", "size", "value_int", "training_mode", "stash_type",
];
const INTS: &[&str] = &[
    "axes",
    "perm",
    "kernel_shape",
    "strides",
    "pads",
    "dilations",
    "output_padding",
    "output_shape",
    "split",
    "value_ints",
];
const FLOAT: &[&str] = &["alpha", "beta", "gamma", "epsilon", "lambd", "bias", "value_float", "cubic_coeff_a", "ratio"];
const STRING: &[(&str, &str)] = &[
    ("auto_pad", "SAME_UPPER"),
    ("auto_pad", "SAME_LOWER"),
    ("auto_pad", "VALID"),
    ("auto_pad", "NOTSET"),
    ("equation", "bij,bjk->bik"),
    ("equation", "bi,ji->bj"),
    ("equation", "...i,ij->...j"),
    ("equation", "bii->b"),
    ("mode", "constant"),
    ("mode", "reflect"),
    ("mode", "edge"),
    ("mode", "wrap"),
    ("mode", "nearest"),
    ("mode", "linear"),
    ("mode", "cubic"),
    ("mode", "DCR"),
    ("mode", "CRD"),
    ("coordinate_transformation_mode", "asymmetric"),
    ("coordinate_transformation_mode", "align_corners"),
    ("nearest_mode", "floor"),
    ("approximate", "tanh"),
    ("reduction", "add"),
];

/// Reads a small integer, or sometimes an extreme value.
fn int(source: &mut FuzzBytes<'_>) -> i64 {
    match source.u8() {
        byte @ 0..=239 => i64::from(byte % 16) - 4,
        byte @ 240..=247 => i64::from(byte) * 1_000_003,
        248..=250 => i64::MAX,
        251..=253 => i64::MIN,
        _ => source.u64().cast_signed(),
    }
}

fn attribute(source: &mut FuzzBytes<'_>) -> AttributeProto {
    match source.below(8) {
        0..3 => make_attr_int(INT[source.below(INT.len())], int(source)),
        3..6 => {
            let name = INTS[source.below(INTS.len())];
            let values: Vec<i64> = (0..source.below(7)).map(|_| int(source)).collect();
            make_attr_ints(name, &values)
        }
        6 => make_attr_float(FLOAT[source.below(FLOAT.len())], source.f64() as f32),
        _ => {
            let (name, value) = STRING[source.below(STRING.len())];
            make_attr_string(name, value)
        }
    }
}

fn initializer(name: &str, source: &mut FuzzBytes<'_>) -> TensorProto {
    let rank = source.below(5);
    let shape: Vec<usize> = (0..rank).map(|_| source.below(6)).collect();
    let len = shape.iter().product();
    match source.below(3) {
        0 => make_tensor_f32(name, &shape, &(0..len).map(|i| i as f32 / 8.0 - 0.25).collect::<Vec<_>>()),
        1 => make_tensor_f32(name, &shape, &(0..len).map(|_| f32::from(source.u8() as i8) / 16.0).collect::<Vec<_>>()),
        _ => {
            let len = source.below(6);
            let shape: &[usize] = if source.below(4) == 0 { &[] } else { &[len] };
            let len = if shape.is_empty() { 1 } else { len };
            make_tensor_i64(name, shape, &(0..len).map(|_| int(source)).collect::<Vec<_>>())
        }
    }
}

fn build(source: &mut FuzzBytes<'_>) -> ModelProto {
    let extents = |source: &mut FuzzBytes<'_>| -> Vec<Extent> {
        let rest = (0..source.below(4)).map(|_| Extent::Fixed(source.below(6))).collect::<Vec<_>>();
        [vec![Extent::Batch], rest].concat()
    };
    let mut graph = GraphProto::default();
    let mut names: Vec<String> = vec![];
    for index in 0..source.below(2) + 1 {
        let name = format!("x{index}");
        let dtype = if source.below(4) == 0 { DType::I64 } else { DType::F32 };
        graph.input.push(make_value_info(&name, dtype, &extents(source)));
        names.push(name);
    }
    for index in 0..source.below(6) {
        let name = format!("w{index}.weight");
        graph.initializer.push(initializer(&name, source));
        names.push(name);
    }
    let nodes = source.below(12) + 1;
    for index in 0..nodes {
        let op = OPERATORS[source.below(OPERATORS.len())];
        // The first input is often the last value, which makes chains.
        let inputs: Vec<String> = (0..source.below(5))
            .map(|at| match source.u8() {
                0 => String::new(),
                byte if byte < 128 && at == 0 => names[names.len() - 1].clone(),
                byte => names[usize::from(byte) % names.len()].clone(),
            })
            .collect();
        let outputs: Vec<String> = (0..source.below(16) / 13 + 1).map(|at| format!("v{index}.{at}")).collect();
        let attributes = (0..source.below(4)).map(|_| attribute(source)).collect();
        let of = |names: &[String]| -> NodeProto {
            let (inputs, outputs): (Vec<&str>, Vec<&str>) =
                (names.iter().map(String::as_str).collect(), outputs.iter().map(String::as_str).collect());
            make_node(op, &format!("node{index}"), &inputs, &outputs, attributes)
        };
        graph.node.push(of(&inputs));
        names.extend(outputs);
    }
    let output = names[names.len() - 1].clone();
    graph.output.push(make_value_info(&output, DType::F32, &extents(source)));
    let version = [17, 13, 18, 20, 22, 11][source.below(6)];
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// Builds the model that the bytes describe.
pub fn network(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let how = usize::from(source.u8());
    crate::model::stages(&build(source), how);
}
