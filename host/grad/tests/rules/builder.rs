//! Builder for canonical graphs.

use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{BatchAxis, DType, Graph, Node, Origin, Parameter, Tensor, TensorData, Value, ValueId};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{make_attr_int, make_attr_ints};
use damper_testing::Random;

/// Samples along axis 0, one per row.
pub const BATCH_FIRST: BatchAxis = BatchAxis { axis: 0, outer: 1, inner: 1 };

/// Graph to test gradients on.
#[derive(Clone, Debug)]
pub struct Case {
    /// Description.
    pub name: String,
    /// Graph. Its parameters have the values at which it is tested.
    pub graph: Graph,
    /// Options, including the loss.
    pub options: DeriveOptions,
}

/// Builder of a canonical [`Graph`]. Shapes of nodes are given. The batch is on axis 0 by default.
pub struct GraphBuilder {
    graph: Graph,
    random: Random,
}

impl GraphBuilder {
    /// Empty graph in the given opset.
    pub fn new(opset: i64) -> Self {
        let graph = Graph {
            opset,
            values: vec![],
            nodes: vec![],
            inputs: vec![],
            outputs: vec![],
            parameters: vec![],
            warnings: vec![],
        };
        Self { graph, random: Random(0) }
    }

    /// Data input `[N, *shape]`.
    pub fn input(&mut self, shape: &[usize]) -> ValueId {
        let name = format!("x{}", self.graph.inputs.len());
        let id = self.value(name, DType::F32, [&[1], shape].concat(), Some(BATCH_FIRST), Origin::Input);
        self.graph.inputs.push(id);
        id
    }

    /// Data input `[N, *shape]` of integers that are valid indices for any table of at least four rows.
    pub fn ids(&mut self, shape: &[usize]) -> ValueId {
        let name = format!("x{}", self.graph.inputs.len());
        let id = self.value(name, DType::I64, [&[1], shape].concat(), Some(BATCH_FIRST), Origin::Input);
        self.graph.inputs.push(id);
        id
    }

    /// Trained parameter with values in (−1, 1).
    pub fn param(&mut self, shape: &[usize]) -> ValueId {
        self.param_in(shape, -1.0, 1.0)
    }

    /// Trained parameter with values in (`low`, `high`).
    pub fn param_in(&mut self, shape: &[usize], low: f32, high: f32) -> ValueId {
        self.parameter(shape, low, high, true)
    }

    /// Parameter that is not trained.
    pub fn frozen(&mut self, shape: &[usize]) -> ValueId {
        self.parameter(shape, -1.0, 1.0, false)
    }

    fn parameter(&mut self, shape: &[usize], low: f32, high: f32, trained: bool) -> ValueId {
        let index = self.graph.parameters.len();
        let name = format!("p{index}");
        let value = self.value(name.clone(), DType::F32, shape.to_vec(), None, Origin::Parameter(index));
        let data = (0..shape.iter().product()).map(|_| low + (high - low) * self.uniform()).collect();
        let initial = Tensor { shape: shape.to_vec(), data: TensorData::F32(data) };
        let reason = "built by hand".into();
        self.graph.parameters.push(Parameter { name, value, initial, quantized: None, trained, reason });
        value
    }

    /// Float constant.
    pub fn floats(&mut self, shape: &[usize], values: &[f64]) -> ValueId {
        let data = TensorData::F32(values.iter().map(|&v| v as f32).collect());
        self.constant(Tensor { shape: shape.to_vec(), data }, DType::F32)
    }

    /// Constant int64 vector.
    pub fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant(Tensor { shape: vec![values.len()], data: TensorData::I64(values.to_vec()) }, DType::I64)
    }

    /// Constant Booleans.
    pub fn bools(&mut self, shape: &[usize], values: &[bool]) -> ValueId {
        self.constant(Tensor { shape: shape.to_vec(), data: TensorData::Bool(values.to_vec()) }, DType::Bool)
    }

    /// Constant int64 tensor.
    pub fn indices(&mut self, shape: &[usize], values: &[i64]) -> ValueId {
        self.constant(Tensor { shape: shape.to_vec(), data: TensorData::I64(values.to_vec()) }, DType::I64)
    }

    /// Shape of a value for a batch of one sample.
    pub fn shape(&self, id: ValueId) -> Vec<usize> {
        self.graph.values[id.0].shape.clone()
    }

    fn constant(&mut self, tensor: Tensor, dtype: DType) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        self.value(name, dtype, tensor.shape.clone(), None, Origin::Constant(tensor))
    }

    /// Batched value `[N, *shape]` whose gradient reaches a trained parameter: an input times a parameter.
    pub fn activation(&mut self, shape: &[usize]) -> ValueId {
        self.activation_in(shape, -1.0, 1.0)
    }

    /// Activation with values in (`low`, `high`), for inputs in (−1, 1): a scaled input plus a parameter.
    pub fn activation_in(&mut self, shape: &[usize], low: f32, high: f32) -> ValueId {
        let reach = (high - low) / 4.0;
        let x = self.input(shape);
        let p = self.param_in(shape, low + reach, high - reach);
        let c = self.floats(&[], &[f64::from(reach)]);
        let full = [&[1], shape].concat();
        let scaled = self.node("Mul", &[x, c], vec![], &full);
        self.node("Add", &[scaled, p], vec![], &full)
    }

    /// Node with one output of the given shape (for a batch of one sample). Its batch is on axis 0 if an input has a
    /// batch.
    pub fn node(&mut self, op: &str, inputs: &[ValueId], attributes: Vec<AttributeProto>, shape: &[usize]) -> ValueId {
        let mut batch = None;
        for input in inputs {
            let value = &self.graph.values[input.0];
            batch = batch.or(value.batch.map(|b| match (value.shape.len() == shape.len(), op) {
                (true, "MatMul" | "Gemm" | "Add" | "Mul") => b,
                _ => BATCH_FIRST,
            }));
        }
        self.node_at(op, inputs, attributes, shape, batch)
    }

    /// Like [`node`](Self::node), with optional inputs.
    pub fn node_with(
        &mut self,
        op: &str,
        inputs: &[Option<ValueId>],
        attributes: Vec<AttributeProto>,
        shape: &[usize],
    ) -> ValueId {
        let given: Vec<ValueId> = inputs.iter().copied().flatten().collect();
        let output = self.node(op, &given, attributes, shape);
        self.graph.nodes.last_mut().expect("the node was added").inputs = inputs.to_vec();
        output
    }

    /// Node with one output of the given shape and batch axis.
    pub fn node_at(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: Vec<AttributeProto>,
        shape: &[usize],
        batch: Option<BatchAxis>,
    ) -> ValueId {
        self.node_typed(op, inputs, attributes, DType::F32, shape, batch)
    }

    /// Node with one output of the given element type, shape and batch axis.
    pub fn node_typed(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: Vec<AttributeProto>,
        dtype: DType,
        shape: &[usize],
        batch: Option<BatchAxis>,
    ) -> ValueId {
        let node = self.graph.nodes.len();
        let origin = Origin::Node { node, slot: 0 };
        let output = self.value(format!("v{node}"), dtype, shape.to_vec(), batch, origin);
        self.graph.nodes.push(Node {
            name: format!("{op}_{node}"),
            op: op.into(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![output],
            attributes,
        });
        output
    }

    /// `TopK`, whose second output is indices.
    pub fn top_k(&mut self, x: ValueId, count: i64, axis: usize, attributes: Vec<AttributeProto>) -> ValueId {
        let k = self.ints(&[count]);
        let mut shape = self.shape(x);
        shape[axis] = count as usize;
        let batch = self.graph.values[x.0].batch;
        let attributes = [attributes, vec![make_attr_int("axis", axis as i64)]].concat();
        let y = self.node_at("TopK", &[x, k], attributes, &shape, batch);
        let node = self.graph.nodes.len() - 1;
        let origin = Origin::Node { node, slot: 1 };
        let places = self.value(format!("v{node}.places"), DType::I64, shape, batch, origin);
        self.graph.nodes[node].outputs.push(places);
        y
    }

    /// Like [`node`](Self::node), with another element type.
    pub fn node_of(
        &mut self,
        dtype: DType,
        op: &str,
        inputs: &[ValueId],
        attributes: Vec<AttributeProto>,
        shape: &[usize],
    ) -> ValueId {
        let id = self.node(op, inputs, attributes, shape);
        self.graph.values[id.0].dtype = dtype;
        id
    }

    /// Case of the graph with one output and the mean squared error.
    pub fn case(self, name: &str, output: ValueId) -> Case {
        self.case_with(name, output, DeriveOptions::new(Loss::Mse))
    }

    /// Case of the graph with one output.
    pub fn case_with(mut self, name: &str, output: ValueId, options: DeriveOptions) -> Case {
        self.graph.outputs.push(output);
        Case { name: name.into(), graph: self.graph, options }
    }

    /// Cases of an elementwise operator with one input in (`low`, `high`).
    pub fn unary_cases(op: &str, low: f32, high: f32) -> Vec<Case> {
        Self::unary_cases_with(17, op, vec![], low, high)
    }

    /// Like [`unary_cases`](Self::unary_cases), in the given opset and with attributes.
    pub fn unary_cases_with(opset: i64, op: &str, attributes: Vec<AttributeProto>, low: f32, high: f32) -> Vec<Case> {
        let noted = attributes.iter().map(|a| format!(", {}", a.name)).collect::<String>();
        let mut activation = Self::new(opset);
        let x = activation.activation_in(&[2, 3], low, high);
        let y = activation.node(op, &[x], attributes.clone(), &[1, 2, 3]);
        let mut parameter = Self::new(opset);
        let (x, w) = (parameter.input(&[2, 3]), parameter.param_in(&[2, 3], low, high));
        let mapped = parameter.node(op, &[w], attributes, &[2, 3]);
        let z = parameter.node("Mul", &[x, mapped], vec![], &[1, 2, 3]);
        vec![
            activation.case(&format!("of an activation{noted}"), y),
            parameter.case(&format!("of a parameter{noted}"), z),
        ]
    }

    /// Operator with one input from −10,000 to 10,000, for which an exponential would overflow.
    pub fn far_out(opset: i64, op: &str, attributes: Vec<AttributeProto>) -> Case {
        let mut b = Self::new(opset);
        let x = b.activation_in(&[3, 4], -1e4, 1e4);
        let y = b.node(op, &[x], attributes, &[1, 3, 4]);
        b.case("of large numbers", y)
    }

    /// Cases of a broadcasting operator with both inputs in (`low`, `high`).
    pub fn binary_cases(op: &str, low: f32, high: f32) -> Vec<Case> {
        let one = |name, left: &[usize], right: &[usize], out: &[usize]| {
            let mut b = Self::new(17);
            let (x, z) = (b.activation_in(left, low, high), b.activation_in(right, low, high));
            let y = b.node(op, &[x, z], vec![], &[&[1], out].concat());
            b.case(name, y)
        };
        let with_parameter = |name, shape: &[usize], swapped: bool| {
            let mut b = Self::new(17);
            let (x, w) = (b.activation_in(&[2, 3], low, high), b.param_in(shape, low, high));
            let inputs = if swapped { [w, x] } else { [x, w] };
            let y = b.node(op, &inputs, vec![], &[1, 2, 3]);
            b.case(name, y)
        };
        let parameters = {
            let mut b = Self::new(17);
            let (x, v, w) = (b.input(&[2, 3]), b.param_in(&[2, 3], low, high), b.param_in(&[3], low, high));
            let both = b.node(op, &[v, w], vec![], &[2, 3]);
            let y = b.node("Mul", &[x, both], vec![], &[1, 2, 3]);
            b.case("of two parameters", y)
        };
        let merged = {
            let mut b = Self::new(17);
            let (x, w) = (b.activation_in(&[2, 3], low, high), b.param_in(&[3], low, high));
            let axis = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
            let rows = b.node_at("Reshape", &[x], vec![], &[2, 3], axis);
            let both = b.node_at(op, &[rows, w], vec![], &[2, 3], axis);
            let y = b.node("Reshape", &[both], vec![], &[1, 2, 3]);
            b.case("with the batch merged with positions", y)
        };
        vec![
            one("of two activations", &[2, 3], &[2, 3], &[2, 3]),
            one("of activations, broadcast", &[2, 1], &[1, 3], &[2, 3]),
            with_parameter("with a parameter of the sample's shape", &[2, 3], false),
            with_parameter("with a row", &[3], true),
            with_parameter("with a column", &[2, 1], false),
            with_parameter("with a scalar", &[], true),
            with_parameter("with a parameter that spells out the batch", &[1, 2, 3], false),
            parameters,
            merged,
        ]
    }

    /// Pool of frames that are merged with the batch.
    pub fn pool_of_frames(op: &str) -> Case {
        let mut b = Self::new(17);
        let x = b.activation(&[2, 3, 4, 4]);
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 3, 4, 4], merged);
        let y = b.node_at(op, &[x], Self::pool_window(), &[2, 3, 2, 2], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 3, 2, 2]);
        b.case("of frames merged with the batch", y)
    }

    /// Pool of planes `[C, N, ...]`.
    pub fn pool_over_turned_batch(op: &str) -> Case {
        let mut b = Self::new(17);
        let x = b.activation(&[3, 4, 4]);
        let transposed = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
        let swap = || vec![make_attr_ints("perm", &[1, 0, 2, 3])];
        let x = b.node_at("Transpose", &[x], swap(), &[3, 1, 4, 4], transposed);
        let y = b.node_at(op, &[x], Self::pool_window(), &[3, 1, 2, 2], transposed);
        let y = b.node_at("Transpose", &[y], swap(), &[1, 3, 2, 2], Some(BATCH_FIRST));
        b.case("with the batch on axis 1", y)
    }

    /// Pool of a parameter.
    pub fn pool_of_parameter(op: &str) -> Case {
        let mut b = Self::new(17);
        let (x, w) = (b.input(&[3, 2, 2]), b.param(&[2, 3, 4, 4]));
        let pooled = b.node(op, &[w], Self::pool_window(), &[2, 3, 2, 2]);
        let first = b.floats(&[2, 1, 1, 1], &[0.5, -1.5]);
        let weighted = b.node("Mul", &[pooled, first], vec![], &[2, 3, 2, 2]);
        let axes = b.ints(&[0]);
        let sum = b.node("ReduceSum", &[weighted, axes], vec![make_attr_int("keepdims", 1)], &[1, 3, 2, 2]);
        let y = b.node("Mul", &[x, sum], vec![], &[1, 3, 2, 2]);
        b.case("of a parameter", y)
    }

    fn pool_window() -> Vec<AttributeProto> {
        vec![
            make_attr_ints("kernel_shape", &[3, 3]),
            make_attr_ints("strides", &[2, 2]),
            make_attr_ints("pads", &[1, 1, 0, 0]),
        ]
    }

    fn value(
        &mut self,
        name: String,
        dtype: DType,
        shape: Vec<usize>,
        batch: Option<BatchAxis>,
        origin: Origin,
    ) -> ValueId {
        self.graph.values.push(Value { name, dtype, shape, batch, origin });
        ValueId(self.graph.values.len() - 1)
    }

    /// Next value of a fixed sequence in [0, 1).
    fn uniform(&mut self) -> f32 {
        self.random.unit()
    }
}
