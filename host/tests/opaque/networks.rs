//! Networks of images of 8 x 8 pixels with operators without a rule, and heads.

use damper_onnx::pb::tensor_proto::DataType;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use damper_onnx::{
    DType, Extent, Tensor, TensorData, make_attr_int, make_attr_string, make_node, make_tensor, make_tensor_f32,
    make_tensor_i64, make_value_info,
};

/// Pattern of the parameters of every head.
pub const HEAD: &str = "head.*";

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    make_node(op, output, inputs, &[output], vec![])
}

fn with(node: NodeProto, attributes: Vec<damper_onnx::pb::AttributeProto>) -> NodeProto {
    NodeProto { attribute: attributes, ..node }
}

fn cast(from: &str, to: DataType, output: &str) -> NodeProto {
    with(node("Cast", &[from], output), vec![make_attr_int("to", to as i64)])
}

fn weight(name: &str, shape: &[usize]) -> TensorProto {
    let entries: Vec<f32> = (0..shape.iter().product()).map(|at| (at * 7 % 11) as f32 / 16.0 - 0.3).collect();
    make_tensor_f32(name, shape, &entries)
}

fn byte(name: &str, value: u8) -> TensorProto {
    let data_type = DataType::Uint8 as i32;
    TensorProto { name: name.into(), data_type, raw_data: vec![value].into(), ..TensorProto::default() }
}

/// Returns a model of these nodes, whose features of `width` numbers the head reads from the value `features`.
fn model(nodes: &[NodeProto], width: usize, initializer: Vec<TensorProto>) -> ModelProto {
    let gemm = node("Gemm", &["features", "head.weight", "head.bias"], "y");
    let flag = Tensor { shape: vec![], data: TensorData::Bool(vec![true]) };
    let constants = vec![
        make_tensor_f32("largest", &[], &[255.0]),
        make_tensor_f32("levels", &[], &[16.0]),
        make_tensor_f32("far", &[], &[1e6]),
        make_tensor_f32("half", &[], &[0.5]),
        make_tensor("training", &flag),
        make_tensor_i64("first", &[], &[0]),
        make_tensor_i64("first axis", &[1], &[0]),
        make_tensor_i64("vector", &[1], &[-1]),
        make_tensor_i64("last", &[1], &[-1]),
        make_tensor_i64("lowest", &[1], &[i64::MIN + 1]),
        byte("four", 4),
    ];
    let head = [weight("head.weight", &[width, 10]), weight("head.bias", &[10])];
    let image = [Extent::Batch, Extent::Fixed(1), Extent::Fixed(8), Extent::Fixed(8)];
    let graph = GraphProto {
        name: "opaque".into(),
        node: nodes.iter().cloned().chain([gemm]).collect(),
        input: vec![make_value_info("x", DType::F32, &image)],
        output: vec![make_value_info("y", DType::F32, &[Extent::Batch, Extent::Fixed(10)])],
        initializer: constants.into_iter().chain(initializer).chain(head).collect(),
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 18 }];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
}

/// Returns the model of these nodes, which give 64 features.
pub fn network(nodes: &[NodeProto]) -> ModelProto {
    model(nodes, 64, vec![])
}

/// Returns the head on the pixels of an image.
pub fn head() -> ModelProto {
    network(&[node("Flatten", &["x"], "features")])
}

/// The upper four bits of each pixel of the value `from`, over 16. `BitShift` has no rule.
pub fn shifted(from: &str) -> Vec<NodeProto> {
    vec![
        node("Mul", &[from, "largest"], "bytes"),
        node("Round", &["bytes"], "rounded"),
        cast("rounded", DataType::Uint8, "integers"),
        with(node("BitShift", &["integers", "four"], "upper"), vec![make_attr_string("direction", "RIGHT")]),
        cast("upper", DataType::Float, "floats"),
        node("Div", &["floats", "levels"], "scaled"),
        node("Flatten", &["scaled"], "features"),
    ]
}

/// The features of [`shifted`] for one image.
pub fn features_of(pixels: &[f32]) -> Vec<f32> {
    let upper = |x: &f32| (x * 255.0).round_ties_even() as u8 >> 4;
    pixels.iter().map(|x| f32::from(upper(x)) / 16.0).collect()
}

/// The sum of each sample and those before it in the batch.
pub fn sums_over_samples() -> Vec<NodeProto> {
    vec![node("CumSum", &["x", "first"], "mixed")]
}

/// The mean of all samples of the batch.
pub fn means_over_samples() -> Vec<NodeProto> {
    vec![node("ReduceMean", &["x", "first axis"], "mixed")]
}

/// The samples of the batch in reverse order.
pub fn reverses_samples() -> Vec<NodeProto> {
    vec![node("Slice", &["x", "last", "lowest", "first axis", "last"], "mixed")]
}

pub fn adds_noise() -> Vec<NodeProto> {
    vec![node("RandomNormalLike", &["x"], "noise"), node("Add", &["x", "noise"], "mixed")]
}

/// Features after a dropout in training mode.
pub fn in_training_mode() -> Vec<NodeProto> {
    let mut nodes = shifted("x");
    let last = nodes.len() - 1;
    nodes[last].input = vec!["dropped".into()];
    nodes.insert(last, node("Dropout", &["scaled", "half", "training"], "dropped"));
    nodes
}

/// Features that are a list as long as the number of pixels above 0.
pub fn lists_nonzero() -> Vec<NodeProto> {
    vec![node("NonZero", &["x"], "indices"), cast("indices", DataType::Float, "features")]
}

/// The pixels of an image, with one more feature for each large pixel. Synthetic samples have no large pixel.
pub fn long_for_large() -> Vec<NodeProto> {
    vec![
        node("Greater", &["x", "far"], "is large"),
        node("Reshape", &["is large", "vector"], "flags"),
        node("Reshape", &["x", "vector"], "pixels"),
        with(node("Compress", &["pixels", "flags"], "large"), vec![make_attr_int("axis", 0)]),
        with(node("Concat", &["pixels", "large"], "all"), vec![make_attr_int("axis", 0)]),
        node("Unsqueeze", &["all", "first axis"], "features"),
    ]
}

/// A linear layer, determinants, and a head.
pub fn body_before_det() -> ModelProto {
    let nodes = [
        node("Flatten", &["x"], "flat"),
        node("Gemm", &["flat", "body.weight", "body.bias"], "hidden"),
        node("Reshape", &["hidden", "of matrices"], "matrices"),
        node("Det", &["matrices"], "det"),
        node("Relu", &["det"], "features"),
    ];
    let shape = make_tensor_i64("of matrices", &[4], &[-1, 16, 2, 2]);
    model(&nodes, 16, vec![weight("body.weight", &[64, 64]), weight("body.bias", &[64]), shape])
}

/// The last layer of `whole`, which reads the value `features`.
pub fn classifier(whole: &ModelProto, features: &str) -> ModelProto {
    let mut model = whole.clone();
    let graph = model.graph.as_mut().unwrap();
    graph.node.retain(|node| node.input.iter().any(|input| input == features));
    graph.initializer.retain(|tensor| tensor.name.starts_with("model.classifier."));
    graph.input = vec![make_value_info(features, DType::F32, &[Extent::Batch, Extent::Fixed(16)])];
    model
}

/// A table of `rows` rows with zeros in `columns` columns, and labels.
pub fn table(rows: usize, columns: usize) -> String {
    let row = |at: usize| format!("{}{}\n", "0,".repeat(columns), at % 2);
    (0..rows).map(row).collect()
}
