//! Layers as ONNX nodes.

use super::sizes::NetworkSizes;
use damper_onnx::graph::DType;
use damper_onnx::pb::tensor_proto::DataType;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use damper_onnx::{
    Extent, make_attr_int, make_attr_ints, make_attr_tensor, make_node, make_tensor_f32, make_tensor_i64,
    make_value_info,
};

const OPERATOR_SET: i64 = 18;
const IR_VERSION: i64 = 8;
/// Larger networks by name are refused: 1 GiB of weights.
pub(super) const MOST_PARAMS: usize = 1 << 28;
const FLOATS: &str = "x";
const IDS: &str = "input_ids";
const MASK: &str = "attention_mask";

/// Patterns of weights and their initial distributions.
type Specs = Vec<(String, &'static str)>;

/// A network under construction. The last value has a known shape for one sample.
pub(super) struct Builder {
    graph: GraphProto,
    /// Name and extents of the last value.
    last: String,
    shape: Vec<usize>,
    /// Number of tokens, for texts.
    tokens: Option<usize>,
    outputs: usize,
    /// Layers so far.
    layers: usize,
    /// Parameters so far.
    params: usize,
    specs: Specs,
}

impl Builder {
    pub(super) fn new(sizes: &NetworkSizes) -> Self {
        let extents: Vec<Extent> =
            [Extent::Batch].into_iter().chain(sizes.sample.iter().map(|&extent| Extent::Fixed(extent))).collect();
        let input = match sizes.tokens {
            None => vec![make_value_info(FLOATS, DType::F32, &extents)],
            Some(_) => [IDS, MASK].map(|name| make_value_info(name, DType::I64, &extents)).into(),
        };
        let last = input[0].name.clone();
        let graph = GraphProto { name: "network".into(), input, ..GraphProto::default() };
        let (shape, tokens, outputs) = (sizes.sample.clone(), sizes.tokens, sizes.outputs);
        Self { graph, last, shape, tokens, outputs, layers: 0, params: 0, specs: vec![] }
    }

    /// Adds a node that takes the last value and `more`, and makes the next value.
    fn node(&mut self, op: &str, more: &[&str], change: impl FnOnce(&mut NodeProto)) {
        let name = format!("{}_{}", op.to_lowercase(), self.graph.node.len());
        let inputs: Vec<&str> = [self.last.as_str()].into_iter().chain(more.iter().copied()).collect();
        let mut node = make_node(op, &name, &inputs, &[&name], vec![]);
        change(&mut node);
        self.graph.node.push(node);
        self.last = name;
    }

    /// Adds a weight of zeros, to be drawn. Weights of a network that is too large are not made.
    fn weight(&mut self, name: &str, shape: &[usize]) {
        self.params =
            shape.iter().fold(1, |size: usize, extent| size.saturating_mul(*extent)).saturating_add(self.params);
        if self.params <= MOST_PARAMS {
            let zeros = vec![0.0; shape.iter().product()];
            self.graph.initializer.push(make_tensor_f32(name, shape, &zeros));
        }
    }

    fn constant(&mut self, name: &str, values: &[i64]) {
        if !self.graph.initializer.iter().any(|tensor| tensor.name == name) {
            self.graph.initializer.push(make_tensor_i64(name, &[values.len()], values));
        }
    }

    fn layer(&mut self, kind: &str) -> String {
        self.layers += 1;
        format!("{kind}{}", self.layers)
    }

    pub(super) fn flatten(&mut self) {
        if self.shape.len() > 1 {
            self.node("Flatten", &[], |node| node.attribute.push(make_attr_int("axis", 1)));
            self.shape = vec![self.shape.iter().fold(1, |size: usize, extent| size.saturating_mul(*extent))];
        }
    }

    fn gemm(&mut self, name: &str, width: usize) {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        self.weight(&weight, &[width, self.shape[0]]);
        self.weight(&bias, &[width]);
        self.node("Gemm", &[&weight, &bias], |node| node.attribute.push(make_attr_int("transB", 1)));
        self.shape = vec![width];
    }

    /// Linear layer and tanh.
    pub(super) fn hidden(&mut self, width: usize) {
        let name = self.layer("fc");
        self.gemm(&name, width);
        self.node("Tanh", &[], |_| {});
    }

    /// 3×3 convolution with padding, and tanh.
    pub(super) fn conv(&mut self, channels: usize) {
        let name = self.layer("conv");
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        self.weight(&weight, &[channels, self.shape[0], 3, 3]);
        self.weight(&bias, &[channels]);
        self.node("Conv", &[&weight, &bias], |node| {
            node.attribute = vec![make_attr_ints("kernel_shape", &[3, 3]), make_attr_ints("pads", &[1; 4])];
        });
        self.node("Tanh", &[], |_| {});
        self.shape[0] = channels;
    }

    /// Max pool that halves height and width.
    pub(super) fn pool(&mut self) {
        self.node("MaxPool", &[], |node| {
            node.attribute = vec![make_attr_ints("kernel_shape", &[2, 2]), make_attr_ints("strides", &[2, 2])];
        });
        self.shape[1..].iter_mut().for_each(|side| *side /= 2);
    }

    /// Replaces tokens by their embeddings, `[S, width]`.
    pub(super) fn embed(&mut self, width: usize) {
        const TABLE: &str = "embedding.weight";
        self.weight(TABLE, &[self.tokens.unwrap_or(1), width]);
        self.specs.push((TABLE.into(), "normal(0, 0.1)"));
        let ids = std::mem::replace(&mut self.last, TABLE.into());
        self.node("Gather", &[&ids], |_| {});
        self.shape.push(width);
    }

    /// An LSTM over the first axis of a sample.
    pub(super) fn lstm(&mut self, width: usize) {
        let gates = 4 * width;
        let features = self.shape[1];
        self.weight("lstm.W", &[1, gates, features]);
        self.weight("lstm.R", &[1, gates, width]);
        self.weight("lstm.B", &[1, 2 * gates]);
        let order = |node: &mut NodeProto| node.attribute.push(make_attr_ints("perm", &[1, 0, 2]));
        self.node("Transpose", &[], order);
        self.node("LSTM", &["lstm.W", "lstm.R", "lstm.B"], |node| {
            node.attribute.push(make_attr_int("hidden_size", width as i64));
        });
        self.constant("axis_1", &[1]);
        self.node("Squeeze", &["axis_1"], |_| {});
        self.node("Transpose", &[], order);
        self.shape[1] = width;
    }

    /// The mean over the first axis of a sample. Padding of texts does not count.
    pub(super) fn mean_of_steps(&mut self) {
        self.constant("axis_1", &[1]);
        let summed = |node: &mut NodeProto| node.attribute.push(make_attr_int("keepdims", 0));
        if self.tokens.is_none() {
            self.node("ReduceMean", &["axis_1"], summed);
        } else {
            let values = std::mem::replace(&mut self.last, MASK.into());
            self.node("Cast", &[], |node| node.attribute.push(make_attr_int("to", DataType::Float as i64)));
            self.constant("axis_2", &[2]);
            self.node("Unsqueeze", &["axis_2"], |_| {});
            let mask = self.last.clone();
            self.node("ReduceSum", &["axis_1"], summed);
            // A text may have no token. A constant node is not trained.
            let one = make_attr_tensor("value", make_tensor_f32("one", &[], &[1.0]));
            self.graph.node.push(make_node("Constant", "one", &[], &["one"], vec![one]));
            self.node("Max", &["one"], |_| {});
            let count = std::mem::replace(&mut self.last, values);
            self.node("Mul", &[&mask], |_| {});
            self.node("ReduceSum", &["axis_1"], summed);
            self.node("Div", &[&count], |_| {});
        }
        self.shape.remove(0);
    }

    /// Adds the last layer. Returns the model, and the distributions of weights that are not those of their roles.
    /// Returns the number of parameters if there are too many.
    pub(super) fn finish(mut self) -> Result<(ModelProto, Specs), usize> {
        if self.tokens.is_some() {
            self.specs.push(("head.weight".into(), "normal(0, 0.25)"));
            self.specs.push(("head.bias".into(), "zeros"));
        }
        self.gemm("head", self.outputs);
        if self.params > MOST_PARAMS {
            return Err(self.params);
        }
        let last = self.graph.node.last_mut().expect("the network has a layer");
        last.output = vec!["logits".into()];
        let extents = [Extent::Batch, Extent::Fixed(self.outputs)];
        self.graph.output = vec![make_value_info("logits", DType::F32, &extents)];
        let operators = OperatorSetIdProto { domain: String::new(), version: OPERATOR_SET };
        let model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "damper".into(),
            opset_import: vec![operators],
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        Ok((model, self.specs))
    }
}
