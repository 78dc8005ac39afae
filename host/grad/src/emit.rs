//! Emitter of ONNX nodes. Every emitted tensor is a [`Var`] with a known element type, shape and batch axis.
//!
//! Equal constants are emitted once, and so are equal operators on the same inputs.

mod layout;
mod products;
mod stretch;
mod sums;
mod var;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use prost::Message;

pub use var::{BATCH_FIRST, Known, Var, reshape_target};

use damper_onnx::graph::{BatchAxis, DType, Tensor, TensorData};
use damper_onnx::pb::{AttributeProto, NodeProto, TensorProto};
use damper_onnx::{CUSTOM_DOMAIN, data_type, make_attr_int, make_custom, make_tensor, rename_tensor};

/// Maximum number of SIMD lanes of a processor.
const VECTOR: usize = 16;

/// Builder of an ONNX graph.
pub struct Emitter {
    pub opset: i64,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    constants: HashMap<Vec<u8>, Rc<str>>,
    emitted: HashMap<Vec<u8>, Vec<Var>>,
    reshaped_from: HashMap<Rc<str>, Var>,
    batch_source: Option<Var>,
    aliases: HashMap<Rc<str>, Rc<str>>,
    transposed: HashSet<Rc<str>>,
    renamed: HashMap<Rc<str>, Rc<str>>,
    known: Known,
    next: usize,
}

impl Emitter {
    pub fn new(opset: i64) -> Self {
        Self {
            opset,
            nodes: Vec::new(),
            initializers: Vec::new(),
            constants: HashMap::new(),
            emitted: HashMap::new(),
            reshaped_from: HashMap::new(),
            batch_source: None,
            aliases: HashMap::new(),
            transposed: HashSet::new(),
            renamed: HashMap::new(),
            known: Known::new(),
            next: 0,
        }
    }

    /// Declares `var` (batch axis 0) as the tensor from which the graph reads the number of samples, if it needs it.
    pub fn read_batch_size_from(&mut self, var: Var) {
        self.batch_source.get_or_insert(var);
    }

    /// Number of nodes emitted so far.
    pub fn position(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the emitted nodes and initializers, and the tensors that they read and write.
    pub fn finish(self) -> (Vec<NodeProto>, Vec<TensorProto>, Known) {
        (self.nodes, self.initializers, self.known)
    }

    fn fresh(&mut self) -> Rc<str> {
        self.next += 1;
        format!("dp.v{}", self.next).into()
    }

    /// Emits a node of the forward pass, with the model's own names for its outputs.
    ///
    /// A model may compute the same value twice, but the emitted graph does not. (tract's optimizer merges equal nodes,
    /// and may remove both.)
    pub fn forward(&mut self, mut node: NodeProto, inputs: &[&Var], outputs: &[&Var]) {
        for name in &mut node.input {
            *name = self.original(name);
        }
        for var in inputs.iter().chain(outputs) {
            self.know(var);
        }
        if let ([output], 1) = (outputs, node.output.len()) {
            let key = key(&node);
            if let Some(same) = self.emitted.get(&key).map(|same| same[0].clone()) {
                return self.alias(&same, &output.name);
            }
            self.emitted.insert(key, vec![(*output).clone()]);
        }
        self.note_turned(&node);
        self.nodes.push(node);
    }

    /// Records the shape of a tensor.
    pub fn know(&mut self, var: &Var) {
        self.known.entry(var.name.clone()).or_insert_with(|| var.clone());
    }

    /// Adds an initializer with its own name.
    pub fn initializer(&mut self, name: &str, tensor: &Tensor) {
        self.initializers.push(make_tensor(name, tensor));
    }

    /// Emits `op` with one output of the given element type, shape and batch axis.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<AttributeProto>,
        dtype: DType,
        shape: Vec<usize>,
        batch: Option<BatchAxis>,
    ) -> Var {
        let mut node = self.unnamed(op, inputs, attributes);
        let key = key(&node);
        if let Some(same) = self.emitted.get(&key) {
            return Var { name: same[0].name.clone(), dtype, shape, batch };
        }
        let var = Var { name: self.fresh(), dtype, shape, batch };
        node.output.push(var.name.to_string());
        node.name = var.name.to_string();
        self.note_turned(&node);
        self.nodes.push(node);
        self.emitted.insert(key, vec![var.clone()]);
        for var in inputs.iter().copied().chain([&var]) {
            self.know(var);
        }
        var
    }

    /// Emits the custom operator `op`. Its outputs are those of its lowering, which reads `inputs` and constants.
    pub fn custom(
        &mut self,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<AttributeProto>,
        lowering: impl FnOnce(&mut Self) -> Vec<Var>,
    ) -> Vec<Var> {
        let mut node = self.unnamed(op, inputs, attributes);
        node.domain = CUSTOM_DOMAIN.into();
        let key = key(&node);
        if let Some(same) = self.emitted.get(&key) {
            return same.clone();
        }
        // The lowering does not read nodes outside, and nodes outside do not read the lowering.
        let outside = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.emitted));
        let outputs = lowering(self);
        let lowering = std::mem::replace(&mut self.nodes, outside.0);
        self.emitted = outside.1;
        for output in &outputs {
            // The source of the reshape is inside the lowering.
            self.reshaped_from.remove(&output.name);
        }
        node.output = outputs.iter().map(|var| var.name.to_string()).collect();
        node.name = outputs[0].name.to_string();
        self.nodes.push(make_custom(node, lowering));
        self.emitted.insert(key, outputs.clone());
        outputs
    }

    fn unnamed(&self, op: &str, inputs: &[&Var], attribute: Vec<AttributeProto>) -> NodeProto {
        let input = inputs.iter().map(|var| self.original(&var.name)).collect();
        NodeProto { op_type: op.into(), input, attribute, ..Default::default() }
    }

    /// Constant tensor.
    pub fn constant(&mut self, tensor: Tensor) -> Var {
        let key = make_tensor("", &tensor).encode_to_vec();
        let name = match self.constants.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name: Rc<str> = format!("dp.c{}", self.constants.len()).into();
                self.initializer(&name, &tensor);
                self.constants.insert(key, name.clone());
                name
            }
        };
        let var = Var { name, dtype: tensor.data.dtype(), shape: tensor.shape, batch: None };
        self.know(&var);
        var
    }

    /// Constant of float type `dtype`.
    pub fn floats(&mut self, dtype: DType, shape: &[usize], values: impl IntoIterator<Item = f64>) -> Var {
        let data = match dtype {
            DType::F64 => TensorData::F64(values.into_iter().collect()),
            _ => TensorData::F32(values.into_iter().map(|v| v as f32).collect()),
        };
        self.constant(Tensor { shape: shape.to_vec(), data })
    }

    /// Constant scalar of float type `dtype`.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Var {
        self.floats(dtype, &[], [value])
    }

    /// Constant int64 vector.
    pub fn ints(&mut self, values: &[i64]) -> Var {
        self.constant(Tensor { shape: vec![values.len()], data: TensorData::I64(values.to_vec()) })
    }

    /// Operator that keeps its input's shape.
    pub fn unary(&mut self, op: &str, x: &Var) -> Var {
        self.node(op, &[x], vec![], x.dtype, x.shape.clone(), x.batch)
    }

    /// Natural logarithm.
    pub fn log(&mut self, x: &Var) -> Var {
        self.alone("Log", x)
    }

    /// Elementwise function with two implementations in onnxruntime: SIMD for full vectors, and another with different
    /// bits for the remainder of a tensor. So every element gets a full vector.
    pub fn alone(&mut self, op: &str, x: &Var) -> Var {
        let column = self.reshape(x, &[&x.shape[..], &[1]].concat(), x.batch);
        let ones = self.floats(x.dtype, &[VECTOR], [1.0; VECTOR]);
        let copies = self.mul(&column, &ones);
        let images = self.unary(op, &copies);
        let first = self.slice(&images, &[(x.rank(), 0, 1, 1)]);
        self.reshape(&first, &x.shape, x.batch)
    }

    /// Broadcasting operator.
    pub fn binary(&mut self, op: &str, a: &Var, b: &Var) -> Var {
        let (shape, batch) = broadcast(a, b);
        self.node(op, &[a, b], vec![], a.dtype, shape, batch)
    }

    pub fn add(&mut self, a: &Var, b: &Var) -> Var {
        self.binary("Add", a, b)
    }

    pub fn sub(&mut self, a: &Var, b: &Var) -> Var {
        self.binary("Sub", a, b)
    }

    pub fn mul(&mut self, a: &Var, b: &Var) -> Var {
        self.binary("Mul", a, b)
    }

    pub fn div(&mut self, a: &Var, b: &Var) -> Var {
        self.binary("Div", a, b)
    }

    /// Broadcasting comparison.
    pub fn compare(&mut self, op: &str, a: &Var, b: &Var) -> Var {
        let (shape, batch) = broadcast(a, b);
        self.node(op, &[a, b], vec![], DType::Bool, shape, batch)
    }

    /// Sign as −1, 0 or 1. The sign of NaN is 0, as in PyTorch.
    pub fn sign(&mut self, x: &Var) -> Var {
        let [minus, zero, one] = [-1.0, 0.0, 1.0].map(|value| self.scalar(x.dtype, value));
        let positive = self.compare("Greater", x, &zero);
        let negative = self.compare("Less", x, &zero);
        let below = self.choose(&negative, &minus, &zero);
        self.choose(&positive, &one, &below)
    }

    /// `IsNaN`, `IsInf` or `Not`.
    pub fn probe(&mut self, op: &str, x: &Var) -> Var {
        self.node(op, &[x], vec![], DType::Bool, x.shape.clone(), x.batch)
    }

    /// `condition ? a : b`, broadcasting.
    pub fn choose(&mut self, condition: &Var, a: &Var, b: &Var) -> Var {
        let (shape, batch) = broadcast(a, b);
        let both = Var { name: "".into(), dtype: a.dtype, shape, batch };
        let (shape, batch) = broadcast(condition, &both);
        self.node("Where", &[condition, a, b], vec![], a.dtype, shape, batch)
    }

    /// `x` `[N, …]` with zeros in the rows for which `keep` is false.
    pub fn masked(&mut self, x: &Var, keep: &Var) -> Var {
        let keep = self.per_sample(keep, &vec![1; x.rank() - 1]);
        let zero = self.scalar(x.dtype, 0.0);
        self.choose(&keep, x, &zero)
    }

    pub fn cast(&mut self, x: &Var, dtype: DType) -> Var {
        if x.dtype == dtype {
            return x.clone();
        }
        let to = make_attr_int("to", data_type(dtype) as i64);
        self.node("Cast", &[x], vec![to], dtype, x.shape.clone(), x.batch)
    }

    /// `factor · x`.
    pub fn scale(&mut self, x: &Var, factor: f64) -> Var {
        if factor == 1.0 {
            return x.clone();
        }
        if factor == -1.0 {
            return self.unary("Neg", x);
        }
        let factor = self.scalar(x.dtype, factor);
        self.mul(x, &factor)
    }

    /// Adds another name for `var`.
    pub fn alias(&mut self, var: &Var, name: &str) {
        let original = self.original(&var.name);
        self.identity(&original, name);
        self.aliases.insert(name.into(), original.into());
    }

    /// Original name of the tensor with the alias `name`.
    pub fn original(&self, name: &str) -> String {
        self.aliases.get(name).map_or(name, |original| original).into()
    }

    /// Makes `var` the graph output `name`. The node that computes it writes to this name. If the tensor has the
    /// model's name or is already another output, it is copied.
    pub fn output(&mut self, var: &Var, name: &str) {
        self.write_as(var, name, var.name.starts_with("dp.v"));
    }

    /// Like [`output`](Self::output), for a graph whose readers use no other names of the model's tensors. A tensor
    /// that a node writes is not copied.
    pub fn take_over(&mut self, var: &Var, name: &str) {
        let original = Var { name: self.original(&var.name).into(), ..var.clone() };
        let is_written = self.nodes.iter().any(|node| node.output.iter().any(|output| **output == *original.name));
        self.write_as(&original, name, is_written);
    }

    fn write_as(&mut self, var: &Var, name: &str, may_rename: bool) {
        if let Some(earlier) = self.renamed.get(&var.name).cloned() {
            self.identity(&earlier, name);
        } else if !may_rename {
            // Not an Identity: onnxruntime 1.31 loses its input if that is a Reshape that a MatMul also reads.
            let target = self.ints(&reshape_target(&var.shape, var.batch));
            self.nodes.push(NodeProto {
                op_type: "Reshape".into(),
                name: name.into(),
                input: vec![var.name.to_string(), target.name.to_string()],
                output: vec![name.into()],
                ..Default::default()
            });
        } else {
            for node in &mut self.nodes {
                rename_tensor(node, &var.name, name);
            }
            self.know(&Var { name: name.into(), ..var.clone() });
            self.renamed.insert(var.name.clone(), name.into());
        }
    }

    fn identity(&mut self, from: &str, to: &str) {
        self.nodes.push(NodeProto {
            op_type: "Identity".into(),
            name: to.into(),
            input: vec![from.into()],
            output: vec![to.into()],
            ..Default::default()
        });
    }
}

/// Computation of a node, without its names.
fn key(node: &NodeProto) -> Vec<u8> {
    NodeProto { name: String::new(), output: vec![], ..node.clone() }.encode_to_vec()
}

/// Shape and batch axis of an elementwise operator's result.
pub fn broadcast(a: &Var, b: &Var) -> (Vec<usize>, Option<BatchAxis>) {
    let rank = a.rank().max(b.rank());
    let extent = |v: &Var, i: usize| {
        if i + v.rank() < rank { 1 } else { v.shape[i + v.rank() - rank] }
    };
    let shape = (0..rank)
        .map(|i| match (extent(a, i), extent(b, i)) {
            (1, d) => d,
            (d, 1) => d,
            (d, e) => {
                debug_assert_eq!(d, e, "broadcast of {a:?} with {b:?}");
                d
            }
        })
        .collect();
    let shifted = |v: &Var| v.batch.map(|b| BatchAxis { axis: b.axis + rank - v.rank(), ..b });
    debug_assert!(shifted(a).is_none() || shifted(b).is_none() || shifted(a) == shifted(b), "{a:?} with {b:?}");
    (shape, shifted(a).or(shifted(b)))
}
