//! Networks with frozen weights of 8-bit integers: shipped networks rounded by `damper fix`, and a network in the form
//! of other tools.

use super::{compiled, of_graph, root};
use damper_compile::{CompileOptions, Compiled};
use damper_edit::quantize_weights;
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, GraphOptions};
use damper_onnx::pb::tensor_proto::DataType;
use damper_onnx::pb::{GraphProto, ModelProto, TensorProto};
use damper_onnx::{Extent, load, make_attr_int, make_attr_ints, make_node, make_tensor_f32, make_value_info};
use damper_testing::Random;

/// Compiles networks that use every kernel that reads integers: convolutions forward and backward, products with the
/// weight on either side, and a gather.
pub fn networks(random: &mut Random, to: &CompileOptions) -> Vec<Compiled> {
    let rounded = |file: &str, patterns: &[&str], weights: usize| {
        let mut model = load(&root().join("onnx-models").join(file)).unwrap();
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let changes = quantize_weights(&mut model, &patterns).unwrap();
        assert_eq!(changes.iter().filter(|change| change.to.is_ok()).count(), weights, "{changes:?}");
        compile(&format!("{file} int8 {}", patterns.concat()), &model, to)
    };
    let networks = vec![
        rounded("mnist-cnn.onnx", &["conv*"], 2),
        // The gradient of the first layer passes through quantised layers.
        rounded("mnist-cnn.onnx", &["conv2*", "fc1*"], 2),
        rounded("digits-cnn-groupnorm.onnx", &["conv2*", "depthwise*", "conv3*"], 3),
        rounded("sensor-cnn.onnx", &["conv2*", "fc*"], 2),
        compile("foreign int8", &foreign(random), to),
    ];
    let kernels: String = networks.iter().flat_map(|network| &network.files).map(text).collect();
    for kernel in ["product_left", "product_right", "forward_quantized", "transposed_quantized", "gather_quantized"] {
        assert!(kernels.contains(kernel), "no network has {kernel}");
    }
    networks
}

fn text(file: &damper_compile::CompiledFile) -> String {
    String::from_utf8_lossy(&file.bytes).into_owned()
}

fn compile(name: &str, model: &ModelProto, to: &CompileOptions) -> Compiled {
    compiled(name, model, &GraphOptions::default(), &DeriveOptions::new(Loss::SoftmaxCrossEntropy), to.clone()).unwrap()
}

/// Returns a network with integer weights in forms that other tools write.
///
/// It has a table of bytes with a zero point per column, and a product with a single-scale weight on the left. It also
/// has bytes with a scale per row, and a bias of 32-bit integers.
fn foreign(random: &mut Random) -> ModelProto {
    let mut initializer = vec![];
    let mut integers = |name: &str, data_type: DataType, dims: &[i64]| {
        let count: i64 = dims.iter().product();
        let bytes = if data_type == DataType::Int32 { 4 } else { 1 };
        let mut raw_data: Vec<u8> = (0..count * bytes).map(|_| random.below(256) as u8).collect();
        if bytes == 4 {
            raw_data.chunks_exact_mut(4).for_each(|value| value[2..].fill(0));
        }
        let (name, dims, data_type) = (name.into(), dims.to_vec(), data_type as i32);
        initializer.push(TensorProto { name, dims, data_type, raw_data: raw_data.into(), ..TensorProto::default() });
    };
    integers("table_q", DataType::Uint8, &[7, 6]);
    integers("table_z", DataType::Uint8, &[6]);
    integers("mix_q", DataType::Int8, &[4, 5]);
    integers("dense_q", DataType::Uint8, &[3, 24]);
    integers("dense_z", DataType::Uint8, &[3]);
    integers("bias_q", DataType::Int32, &[3]);
    let mut floats = |name: &str, dims: &[usize], scale: f32| {
        let values: Vec<f32> = (0..dims.iter().product()).map(|_| random.signed() * scale).collect();
        initializer.push(make_tensor_f32(name, dims, &values));
    };
    floats("table_s", &[6], 0.01);
    floats("mix_s", &[], 0.01);
    floats("dense_s", &[3], 0.01);
    floats("bias_s", &[], 0.0001);
    floats("gain", &[5, 6], 1.0);
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let dequantize = |name: &str, inputs: &[&str], attributes| {
        make_node("DequantizeLinear", &format!("{name}_dequantize"), inputs, &[name], attributes)
    };
    let node = vec![
        dequantize("table", &["table_q", "table_s", "table_z"], vec![]),
        dequantize("mix", &["mix_q", "mix_s"], vec![]),
        dequantize("dense", &["dense_q", "dense_s", "dense_z"], axis(0)),
        dequantize("bias", &["bias_q", "bias_s"], vec![]),
        make_node("Gather", "lookup", &["table", "tokens"], &["looked"], vec![]),
        make_node("Mul", "scale", &["looked", "gain"], &["scaled"], vec![]),
        make_node("MatMul", "mixing", &["mix", "scaled"], &["mixed"], vec![]),
        make_node("Tanh", "tanh", &["mixed"], &["bent"], vec![]),
        make_node("Flatten", "flatten", &["bent"], &["flat"], vec![]),
        make_node("Transpose", "turn", &["dense"], &["turned"], vec![make_attr_ints("perm", &[1, 0])]),
        make_node("MatMul", "out", &["flat", "turned"], &["sum"], vec![]),
        make_node("Add", "shift", &["sum", "bias"], &["y"], vec![]),
    ];
    let graph = GraphProto {
        node,
        input: vec![make_value_info("tokens", DType::I64, &[Extent::Batch, Extent::Fixed(5)])],
        output: vec![make_value_info("y", DType::F32, &[Extent::Batch, Extent::Fixed(3)])],
        initializer,
        ..GraphProto::default()
    };
    of_graph(graph)
}
