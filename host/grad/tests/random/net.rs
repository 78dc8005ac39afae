//! Network under construction: pool of values, reusable parameters, and the final loss.

use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{BatchAxis, DType, Support, support};
use damper_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use damper_onnx::{
    Extent, make_attr_int, make_attr_ints, make_node, make_tensor_f32, make_tensor_i64, make_value_info,
};

use super::draw::SplitMix;

/// Maximum magnitude of a value, so that the third derivative of a loss stays moderate.
const LARGEST: f64 = 16.0;
/// Maximum number of elements per sample.
pub const MAX_LEN: usize = 96;
/// Upper bound of token ids (exclusive).
pub const VOCABULARY: usize = 7;

/// Float value. The shape is that of one sample, as in `damper_onnx::graph::Value`.
#[derive(Clone, Debug)]
pub struct Val {
    pub name: String,
    pub shape: Vec<usize>,
    pub batch: Option<BatchAxis>,
    /// Maximum magnitude of its elements.
    pub bound: f64,
}

impl Val {
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if samples are on axis 0, one per row.
    pub fn is_batch_first(&self) -> bool {
        self.batch == Some(BatchAxis { axis: 0, outer: 1, inner: 1 })
    }

    /// Axes other than the batch axis.
    pub fn own_axes(&self) -> Vec<usize> {
        (0..self.rank()).filter(|&axis| self.batch.is_none_or(|b| b.axis != axis)).collect()
    }
}

/// Finished network.
pub struct Network {
    pub model: ModelProto,
    pub options: DeriveOptions,
    pub ops: Vec<String>,
}

pub struct Net {
    pub draw: SplitMix,
    pub opset: i64,
    pub pool: Vec<Val>,
    used: Vec<bool>,
    /// Token ids `[N, S]`, if the network reads any.
    pub tokens: Option<(String, usize)>,
    params: Vec<Val>,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    inputs: Vec<(String, DType, Vec<usize>)>,
    next: usize,
}

impl Net {
    pub fn new(seed: u64) -> Self {
        let mut draw = SplitMix::new(seed);
        let opset = *draw.pick(&[13, 14, 15, 16, 17, 18, 19, 20, 21]);
        let mut net = Self {
            draw,
            opset,
            pool: vec![],
            used: vec![],
            tokens: None,
            params: vec![],
            nodes: vec![],
            initializers: vec![],
            inputs: vec![],
            next: 0,
        };
        for _ in 0..net.draw.between(1, 2) {
            let rest = match net.draw.below(4) {
                0 => vec![net.draw.between(2, 6)],
                1 => vec![net.draw.between(2, 4), net.draw.between(2, 4)],
                2 => vec![net.draw.between(1, 4), net.draw.between(3, 6)],
                _ => vec![net.draw.between(1, 4), net.draw.between(3, 5), net.draw.between(3, 5)],
            };
            let name = format!("x{}", net.inputs.len());
            net.inputs.push((name.clone(), DType::F32, rest.clone()));
            let batch = Some(BatchAxis { axis: 0, outer: 1, inner: 1 });
            net.add(Val { name, shape: [&[1], &rest[..]].concat(), batch, bound: 1.0 });
        }
        if net.draw.one_in(3) {
            let length = net.draw.between(2, 4);
            net.inputs.push(("tokens".into(), DType::I64, vec![length]));
            net.tokens = Some(("tokens".into(), length));
        }
        net
    }

    fn add(&mut self, val: Val) {
        self.pool.push(val);
        self.used.push(false);
    }

    pub fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}{}", self.next)
    }

    /// Returns true if damper supports the operator.
    pub fn knows(op: &str) -> bool {
        support("", op) == Support::Ruled
    }

    /// Adds a node with one output.
    pub fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.fresh("v");
        self.nodes_with(op, inputs, &[&output], attributes);
        output
    }

    pub fn nodes_with(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) {
        for name in inputs {
            if let Some(at) = self.pool.iter().position(|val| val.name == *name) {
                self.used[at] = true;
            }
        }
        self.nodes.push(make_node(op, &self.next.to_string(), inputs, outputs, attributes));
    }

    /// Adds a value to the pool, after bounding it if it may be large.
    pub fn yields(&mut self, val: Val) {
        assert!(val.shape.iter().all(|&d| d > 0), "{val:?}");
        if val.bound <= LARGEST {
            return self.add(val);
        }
        let name = self.node("Tanh", &[&val.name], vec![]);
        self.add(Val { name, bound: 1.0, ..val });
    }

    /// Adds an operator with one output in the layout of `x`.
    pub fn maps(&mut self, op: &str, x: &Val, attributes: Vec<AttributeProto>, bound: f64) {
        let name = self.node(op, &[&x.name], attributes);
        self.yields(Val { name, bound, ..x.clone() });
    }

    /// Random value of the pool for which `fits` holds. Later values are more likely.
    pub fn any(&mut self, fits: impl Fn(&Val) -> bool) -> Option<Val> {
        let found: Vec<usize> = (0..self.pool.len()).filter(|&i| fits(&self.pool[i])).collect();
        if found.is_empty() {
            return None;
        }
        let (a, b) = (self.draw.below(found.len()), self.draw.below(found.len()));
        Some(self.pool[found[a.max(b)]].clone())
    }

    /// Makes `x` positive and away from zero: `x² + 1/2`. The result is an activation that depends on a parameter.
    pub fn positive(&mut self, x: &Val) -> Val {
        let square = self.node("Mul", &[&x.name, &x.name], vec![]);
        let half = self.constant(&[], &[0.5]);
        let name = self.node("Add", &[&square, &half], vec![]);
        Val { name, bound: x.bound * x.bound + 0.5, ..x.clone() }
    }

    pub fn ints(&mut self, values: &[i64]) -> String {
        let name = self.fresh("c");
        self.initializers.push(make_tensor_i64(&name, &[values.len()], values));
        name
    }

    pub fn int_tensor(&mut self, shape: &[usize], values: &[i64]) -> String {
        let name = self.fresh("c");
        self.initializers.push(make_tensor_i64(&name, shape, values));
        name
    }

    /// Float constant, which exporters write as a `Constant` node.
    pub fn constant(&mut self, shape: &[usize], values: &[f32]) -> String {
        let name = self.fresh("k");
        let tensor = make_tensor_f32(&name, shape, values);
        let value = damper_onnx::make_attr_tensor("value", tensor);
        self.nodes.push(make_node("Constant", &name, &[], &[&name], vec![value]));
        name
    }

    /// New parameter. Its elements are distinct, so that no exporter pattern matches.
    fn fresh_param(&mut self, shape: &[usize]) -> Val {
        let name = self.fresh("w");
        let data: Vec<f32> = (0..shape.iter().product()).map(|_| 0.25 + 0.75 * self.draw.unit()).collect();
        self.initializers.push(make_tensor_f32(&name, shape, &data));
        let val = Val { name, shape: shape.to_vec(), batch: None, bound: 1.0 };
        self.params.push(val.clone());
        val
    }

    /// Tensor of the given shape that depends only on parameters.
    pub fn param(&mut self, shape: &[usize]) -> Val {
        let again: Vec<Val> = self.params.iter().filter(|p| p.shape == shape).cloned().collect();
        if !again.is_empty() && self.draw.one_in(3) {
            return self.draw.pick(&again).clone();
        }
        let made = |name: String, bound: f64| Val { name, shape: shape.to_vec(), batch: None, bound };
        match self.draw.below(12) {
            0 if shape.len() > 1 => {
                let order = self.draw.order(shape.len());
                let mut from = vec![0; shape.len()];
                order.iter().zip(shape).for_each(|(&axis, &d)| from[axis] = d);
                let w = self.param_of(&from);
                let perm = order.iter().map(|&axis| axis as i64).collect::<Vec<_>>();
                made(self.node("Transpose", &[&w.name], vec![make_attr_ints("perm", &perm)]), w.bound)
            }
            1 if shape.len() == 2 => {
                let rank = self.draw.between(1, 2);
                let (l, r) = (self.param_of(&[shape[0], rank]), self.param_of(&[rank, shape[1]]));
                made(self.node("MatMul", &[&l.name, &r.name], vec![]), l.bound * r.bound * rank as f64)
            }
            2 => {
                let (w, s) = (self.param_of(shape), self.param_of(&[1]));
                made(self.node("Mul", &[&w.name, &s.name], vec![]), w.bound * s.bound)
            }
            3 => {
                let w = self.param_of(&[shape.iter().product()]);
                let target = self.ints(&shape.iter().map(|&d| d as i64).collect::<Vec<_>>());
                made(self.node("Reshape", &[&w.name, &target], vec![]), w.bound)
            }
            4 if damper_grad::is_differentiated("Slice") && !shape.is_empty() => {
                let axis = self.draw.below(shape.len());
                let mut wide = shape.to_vec();
                wide[axis] += 1;
                let w = self.param_of(&wide);
                let lists = [[1], [wide[axis] as i64], [axis as i64]].map(|list| self.ints(&list));
                made(self.node("Slice", &[&w.name, &lists[0], &lists[1], &lists[2]], vec![]), w.bound)
            }
            5 => {
                let w = self.param_of(shape);
                made(self.node("Tanh", &[&w.name], vec![]), 1.0)
            }
            _ => self.param_of(shape),
        }
    }

    /// New or existing parameter.
    fn param_of(&mut self, shape: &[usize]) -> Val {
        let again: Vec<Val> = self.params.iter().filter(|p| p.shape == shape).cloned().collect();
        if !again.is_empty() && self.draw.one_in(3) {
            return self.draw.pick(&again).clone();
        }
        self.fresh_param(shape)
    }

    /// Target of a `Reshape` that keeps the batch.
    pub fn target(&mut self, shape: &[usize], batch: Option<BatchAxis>) -> String {
        let entry = |(axis, &d): (usize, &usize)| if batch.is_some_and(|b| b.axis == axis) { -1 } else { d as i64 };
        let entries: Vec<i64> = shape.iter().enumerate().map(entry).collect();
        self.ints(&entries)
    }

    /// Combines all values without a reader to one output `[N, classes]`, and selects the loss.
    pub fn finish(mut self) -> Network {
        let classes = self.draw.between(1, 4);
        let mut total: Option<String> = None;
        let leaves: Vec<Val> = (0..self.pool.len()).filter(|&i| !self.used[i]).map(|i| self.pool[i].clone()).collect();
        for leaf in leaves {
            // [.., N at any axis, ..] as rows of samples.
            let mut row = leaf.clone();
            let batch = leaf.batch.expect("the pool holds activations");
            if batch.axis != 0 {
                let mut order: Vec<usize> = (0..row.rank()).collect();
                order.swap(0, batch.axis);
                let perm: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
                row.name = self.node("Transpose", &[&row.name], vec![make_attr_ints("perm", &perm)]);
            }
            if batch.outer != 1 {
                // Outer digits before the sample: split them off and move them after it.
                let (outer, rest) = (batch.outer as i64, (leaf.len() / batch.outer) as i64);
                let target = self.ints(&[outer, -1, rest]);
                let split = self.node("Reshape", &[&row.name, &target], vec![]);
                row.name = self.node("Transpose", &[&split], vec![make_attr_ints("perm", &[1, 0, 2])]);
            }
            let target = self.ints(&[-1, leaf.len() as i64]);
            let flat = self.node("Reshape", &[&row.name, &target], vec![]);
            let w = self.fresh_param(&[leaf.len(), classes]);
            let product = self.node("MatMul", &[&flat, &w.name], vec![]);
            let scale = self.constant(&[], &[1.0 / leaf.len() as f32]);
            let scaled = self.node("Mul", &[&product, &scale], vec![]);
            total = Some(match total {
                None => scaled,
                Some(sum) => self.node("Add", &[&sum, &scaled], vec![]),
            });
        }
        let bias = self.fresh_param(&[classes]);
        self.nodes_with("Add", &[&total.expect("an input is a leaf"), &bias.name], &["y"], vec![]);
        let loss = match self.draw.below(3) {
            0 => Loss::SoftmaxCrossEntropy,
            1 => Loss::BceWithLogits,
            _ => Loss::Mse,
        };
        let info = |name: &str, dtype: DType, rest: &[usize]| {
            let extents: Vec<Extent> =
                std::iter::once(Extent::Batch).chain(rest.iter().map(|&d| Extent::Fixed(d))).collect();
            make_value_info(name, dtype, &extents)
        };
        // Another output, without a loss.
        let mut output = vec![info("y", DType::F32, &[classes])];
        if self.draw.one_in(3)
            && let Some(other) = self.any(|x| x.is_batch_first() && x.name.starts_with('v'))
        {
            output.push(info(&other.name, DType::F32, &other.shape[1..]));
        }
        let ops = self.nodes.iter().map(|node| node.op_type.clone()).collect();
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            graph: Some(GraphProto {
                name: "random".into(),
                node: self.nodes,
                initializer: self.initializers,
                input: self.inputs.iter().map(|(name, dtype, rest)| info(name, *dtype, rest)).collect(),
                output,
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut options = DeriveOptions::new(loss);
        options.output = Some("y".into());
        Network { model, options, ops }
    }

    /// Axes of a reduction as attribute or input, as the opset requires.
    pub fn axes(&mut self, axes: &[usize], as_input: bool) -> (Option<String>, Vec<AttributeProto>) {
        let list: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        if as_input { (Some(self.ints(&list)), vec![]) } else { (None, vec![make_attr_ints("axes", &list)]) }
    }
}

/// `axis` as an attribute, as a negative index if `back`.
pub fn axis_attribute(axis: usize, rank: usize, back: bool) -> AttributeProto {
    make_attr_int("axis", if back { axis as i64 - rank as i64 } else { axis as i64 })
}
