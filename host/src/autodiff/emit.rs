//! Writing ONNX nodes: every emitted tensor is a [`Var`] with a known element type, shape and place of the batch.
//!
//! Equal constants are written once, and an operator applied twice to the same inputs is written once.

mod stretch;
mod sums;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use prost::Message;

use super::cost::Known;
use crate::graph::{BatchAxis, DType, Tensor, TensorData};
use crate::onnx::pb::{AttributeProto, NodeProto, TensorProto};
use crate::onnx::{data_type, make_attr_int, make_attr_ints, make_tensor};

/// The plain batch axis 0.
pub const BATCH_FIRST: BatchAxis = BatchAxis { axis: 0, outer: 1, inner: 1 };

/// Elements of the longest vector that a processor works on at once.
const VECTOR: usize = 16;

/// A tensor of the emitted graph; `shape` is that of a batch of one sample, as in [`crate::graph::Value`].
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    pub name: Rc<str>,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub batch: Option<BatchAxis>,
}

impl Var {
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Elements of one sample.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the batch is axis 0 and that axis is the batch alone.
    pub fn is_batch_first(&self) -> bool {
        self.batch == Some(BATCH_FIRST)
    }

    /// Whether the samples lie one after the other in memory.
    fn is_contiguous_by_sample(&self) -> bool {
        self.batch.is_some_and(|b| b.outer == 1 && self.shape[..b.axis].iter().all(|&d| d == 1))
    }
}

/// Builder of an ONNX graph.
pub struct Emitter {
    pub opset: i64,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    constants: HashMap<Vec<u8>, Rc<str>>,
    emitted: HashMap<Vec<u8>, Var>,
    reshaped_from: HashMap<Rc<str>, Var>,
    batch_source: Option<Var>,
    aliases: HashMap<Rc<str>, Rc<str>>,
    turned: HashSet<Rc<str>>,
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
            turned: HashSet::new(),
            renamed: HashMap::new(),
            known: Known::new(),
            next: 0,
        }
    }

    /// Declares `var` (batch axis 0) as the tensor from which the number of samples is read where a graph needs it.
    pub fn read_batch_size_from(&mut self, var: Var) {
        self.batch_source.get_or_insert(var);
    }

    /// The nodes and initializers written so far, and the tensors that they read and write.
    pub fn finish(self) -> (Vec<NodeProto>, Vec<TensorProto>, Known) {
        (self.nodes, self.initializers, self.known)
    }

    fn fresh(&mut self) -> Rc<str> {
        self.next += 1;
        format!("dp.v{}", self.next).into()
    }

    /// Writes a node under given names, which are those of `outputs`: the forward pass keeps the model's own.
    ///
    /// A model may compute the same twice; this does not. (tract's optimiser merges what is the same, and may leave neither.)
    pub fn forward(&mut self, mut node: NodeProto, inputs: &[&Var], outputs: &[&Var]) {
        for name in &mut node.input {
            *name = self.original(name);
        }
        for var in inputs.iter().chain(outputs) {
            self.know(var);
        }
        if let ([output], 1) = (outputs, node.output.len()) {
            let key = key(&node);
            if let Some(same) = self.emitted.get(&key).cloned() {
                return self.alias(&same, &output.name);
            }
            self.emitted.insert(key, (*output).clone());
        }
        self.note_turned(&node);
        self.nodes.push(node);
    }

    /// Notes the shape of a tensor.
    pub fn know(&mut self, var: &Var) {
        self.known.entry(var.name.clone()).or_insert_with(|| var.clone());
    }

    /// Adds an initializer under its own name.
    pub fn initializer(&mut self, name: &str, tensor: &Tensor) {
        self.initializers.push(make_tensor(name, tensor));
    }

    /// Writes `op` with one output of the given element type, shape and batch axis.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<AttributeProto>,
        dtype: DType,
        shape: Vec<usize>,
        batch: Option<BatchAxis>,
    ) -> Var {
        let mut node = NodeProto {
            op_type: op.into(),
            input: inputs.iter().map(|v| self.original(&v.name)).collect(),
            attribute: attributes,
            ..Default::default()
        };
        let key = key(&node);
        if let Some(same) = self.emitted.get(&key) {
            return Var { name: same.name.clone(), dtype, shape, batch };
        }
        let var = Var { name: self.fresh(), dtype, shape, batch };
        node.output.push(var.name.to_string());
        node.name = var.name.to_string();
        self.note_turned(&node);
        self.nodes.push(node);
        self.emitted.insert(key, var.clone());
        for var in inputs.iter().copied().chain([&var]) {
            self.know(var);
        }
        var
    }

    /// A constant tensor.
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

    /// A constant of float type `dtype`.
    pub fn floats(&mut self, dtype: DType, shape: &[usize], values: impl IntoIterator<Item = f64>) -> Var {
        let data = match dtype {
            DType::F64 => TensorData::F64(values.into_iter().collect()),
            _ => TensorData::F32(values.into_iter().map(|v| v as f32).collect()),
        };
        self.constant(Tensor { shape: shape.to_vec(), data })
    }

    /// A constant scalar of float type `dtype`.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Var {
        self.floats(dtype, &[], [value])
    }

    /// A constant int64 vector.
    pub fn ints(&mut self, values: &[i64]) -> Var {
        self.constant(Tensor { shape: vec![values.len()], data: TensorData::I64(values.to_vec()) })
    }

    /// An operator that keeps its input's shape.
    pub fn unary(&mut self, op: &str, x: &Var) -> Var {
        self.node(op, &[x], vec![], x.dtype, x.shape.clone(), x.batch)
    }

    /// The natural logarithm.
    pub fn log(&mut self, x: &Var) -> Var {
        self.alone("Log", x)
    }

    /// A function of one element of which onnxruntime has two: one for whole vectors, and one, with other bits, for what is
    /// left over at a tensor's end. So every element gets a vector of its own.
    pub fn alone(&mut self, op: &str, x: &Var) -> Var {
        let column = self.reshape(x, &[&x.shape[..], &[1]].concat(), x.batch);
        let ones = self.floats(x.dtype, &[VECTOR], [1.0; VECTOR]);
        let copies = self.mul(&column, &ones);
        let images = self.unary(op, &copies);
        let first = self.slice(&images, &[(x.rank(), 0, 1, 1)]);
        self.reshape(&first, &x.shape, x.batch)
    }

    /// A broadcasting operator.
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

    /// A broadcasting comparison.
    pub fn compare(&mut self, op: &str, a: &Var, b: &Var) -> Var {
        let (shape, batch) = broadcast(a, b);
        self.node(op, &[a, b], vec![], DType::Bool, shape, batch)
    }

    /// `condition ? a : b`, broadcasting.
    pub fn choose(&mut self, condition: &Var, a: &Var, b: &Var) -> Var {
        let (shape, batch) = broadcast(a, b);
        let both = Var { name: "".into(), dtype: a.dtype, shape, batch };
        let (shape, batch) = broadcast(condition, &both);
        self.node("Where", &[condition, a, b], vec![], a.dtype, shape, batch)
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

    /// Row-major reinterpretation; the samples keep their place in memory.
    pub fn reshape(&mut self, x: &Var, shape: &[usize], batch: Option<BatchAxis>) -> Var {
        debug_assert_eq!(x.len(), shape.iter().product::<usize>(), "reshape of {x:?} to {shape:?}");
        if x.shape == shape && x.batch == batch {
            return x.clone();
        }
        let source = self.reshaped_from.get(&x.name).unwrap_or(x).clone();
        if source.shape == shape && source.batch == batch {
            return source;
        }
        let target = self.ints(&reshape_target(shape, batch));
        let y = self.node("Reshape", &[&source, &target], vec![], x.dtype, shape.to_vec(), batch);
        self.note_reshaped(&source, &y);
        self.reshaped_from.insert(y.name.clone(), source);
        y
    }

    /// Axis `i` of the result is axis `perm[i]` of `x`.
    pub fn transpose(&mut self, x: &Var, perm: &[usize]) -> Var {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return x.clone();
        }
        let shape = perm.iter().map(|&p| x.shape[p]).collect();
        let batch = x.batch.map(|b| BatchAxis { axis: perm.iter().position(|&p| p == b.axis).unwrap(), ..b });
        let attribute = make_attr_ints("perm", &perm.iter().map(|&p| p as i64).collect::<Vec<_>>());
        self.node("Transpose", &[x], vec![attribute], x.dtype, shape, batch)
    }

    /// Swaps the last two axes.
    pub fn transpose_last(&mut self, x: &Var) -> Var {
        let mut perm: Vec<usize> = (0..x.rank()).collect();
        perm.swap(x.rank() - 2, x.rank() - 1);
        self.transpose(x, &perm)
    }

    /// Matrix product over the last two axes, leading axes broadcast; both ranks at least 2.
    ///
    /// Products of a batch with one column are written as sums of products: onnxruntime multiplies several rows at once
    /// with such a column, and those left over in another way, with other bits, so a sample's would depend on its place.
    /// (In a product with ones, as the sums are, either way gives the same.)
    pub fn matmul(&mut self, a: &Var, b: &Var) -> Var {
        let (inner, columns) = (b.shape[b.rank() - 2], b.shape[b.rank() - 1]);
        if columns == 1 && inner > 1 && a.batch.is_some() && b.batch.is_none() {
            let row = self.transpose_last(b);
            let products = self.mul(a, &row);
            return self.reduce_sum(&products, &[products.rank() - 1], true);
        }
        if a.shape[a.rank() - 2] == 1
            && inner > 1
            && a.batch.is_none()
            && b.batch.is_some_and(|at| at.axis == b.rank() - 1)
        {
            let (left, right) = (self.transpose_last(b), self.transpose_last(a));
            let turned = self.matmul(&left, &right);
            return self.transpose_last(&turned);
        }
        self.product(a, b)
    }

    fn product(&mut self, a: &Var, b: &Var) -> Var {
        let (ra, rb) = (a.rank(), b.rank());
        debug_assert_eq!(a.shape[ra - 1], b.shape[rb - 2], "matmul {a:?} {b:?}");
        // Pretend both were [.., m, n] to broadcast the leading axes and find the batch.
        let (m, n) = (a.shape[ra - 2], b.shape[rb - 1]);
        let stretch = |v: &Var, rank: usize| {
            let mut v = v.clone();
            v.shape[rank - 2] = m;
            v.shape[rank - 1] = n;
            v
        };
        let (shape, batch) = broadcast(&stretch(a, ra), &stretch(b, rb));
        self.node("MatMul", &[a, b], vec![], a.dtype, shape, batch)
    }

    /// `op(a) · op(b)` of two matrices, `op` transposing where its flag is set.
    pub fn gemm(&mut self, a: &Var, transpose_a: bool, b: &Var, transpose_b: bool) -> Var {
        let at = |v: &Var, flip: bool, i: usize| v.shape[i ^ flip as usize];
        let shape = vec![at(a, transpose_a, 0), at(b, transpose_b, 1)];
        if !transpose_a && !transpose_b || shape.contains(&1) {
            let a = if transpose_a { self.transpose_last(a) } else { a.clone() };
            let b = if transpose_b { self.transpose_last(b) } else { b.clone() };
            return self.matmul(&a, &b);
        }
        let side = |v: &Var, flip: bool| v.batch.map(|b| BatchAxis { axis: b.axis ^ flip as usize, ..b });
        let batch = side(a, transpose_a).or(side(b, transpose_b));
        let flags = vec![make_attr_int("transA", transpose_a as i64), make_attr_int("transB", transpose_b as i64)];
        self.node("Gemm", &[a, b], flags, a.dtype, shape, batch)
    }

    /// Another name for `var`.
    pub fn alias(&mut self, var: &Var, name: &str) {
        let original = self.original(&var.name);
        self.identity(&original, name);
        self.aliases.insert(name.into(), original.into());
    }

    /// The name of the tensor that `name` is another name for.
    fn original(&self, name: &str) -> String {
        self.aliases.get(name).map_or(name, |original| original).into()
    }

    /// Joins along `axis`.
    pub fn concat(&mut self, parts: &[&Var], axis: usize) -> Var {
        if let [one] = parts {
            return (*one).clone();
        }
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        let batch = parts.iter().find_map(|p| p.batch);
        self.node("Concat", parts, vec![make_attr_int("axis", axis as i64)], parts[0].dtype, shape, batch)
    }

    /// Elements `start, start + step, …` (`count` of them) along each of `axes`, given as `(axis, start, step, count)`.
    pub fn slice(&mut self, x: &Var, axes: &[(usize, usize, usize, usize)]) -> Var {
        let cut: Vec<_> = axes.iter().filter(|&&(a, s, t, n)| (s, t, n) != (0, 1, x.shape[a])).collect();
        if cut.is_empty() {
            return x.clone();
        }
        let mut shape = x.shape.clone();
        let mut lists: [Vec<i64>; 4] = Default::default();
        for &&(axis, start, step, count) in &cut {
            shape[axis] = count;
            let end = start + (count - 1) * step + 1;
            for (list, value) in lists.iter_mut().zip([start, end, axis, step]) {
                list.push(value as i64);
            }
        }
        let lists = lists.map(|l| self.ints(&l));
        let inputs = [x, &lists[0], &lists[1], &lists[2], &lists[3]];
        self.node("Slice", &inputs, vec![], x.dtype, shape, x.batch)
    }

    /// Pads with `value`: `pads[i]` elements before and after axis `i`.
    pub fn pad(&mut self, x: &Var, pads: &[(usize, usize)], value: f64) -> Var {
        if pads.iter().all(|&p| p == (0, 0)) {
            return x.clone();
        }
        let shape = x.shape.iter().zip(pads).map(|(d, (b, a))| d + b + a).collect();
        let list: Vec<i64> = pads.iter().map(|p| p.0 as i64).chain(pads.iter().map(|p| p.1 as i64)).collect();
        let list = self.ints(&list);
        let value = self.scalar(x.dtype, value);
        self.node("Pad", &[x, &list, &value], vec![], x.dtype, shape, x.batch)
    }

    /// Rows `indices` (a vector) along `axis`.
    pub fn gather(&mut self, x: &Var, indices: &[i64], axis: usize) -> Var {
        let mut shape = x.shape.clone();
        shape[axis] = indices.len();
        let indices = self.ints(indices);
        self.node("Gather", &[x, &indices], vec![make_attr_int("axis", axis as i64)], x.dtype, shape, x.batch)
    }

    /// `[N, *target]`, each sample's elements in row-major order of `x`'s shape for one sample.
    pub fn per_sample(&mut self, x: &Var, target: &[usize]) -> Var {
        let mut shape = vec![1];
        shape.extend(target);
        let batch = x.batch.expect("a batched tensor");
        if x.is_contiguous_by_sample() {
            return self.reshape(x, &shape, Some(BATCH_FIRST));
        }
        let before = x.shape[..batch.axis].iter().product::<usize>() * batch.outer;
        let after = batch.inner * x.shape[batch.axis + 1..].iter().product::<usize>();
        let middle = BatchAxis { axis: 1, outer: 1, inner: 1 };
        let x = self.reshape(x, &[before, 1, after], Some(middle));
        let x = self.transpose(&x, &[1, 0, 2]);
        self.reshape(&x, &shape, Some(BATCH_FIRST))
    }

    /// The inverse of [`per_sample`](Self::per_sample): `x` (`[N, …]`) in the shape and batch axis of a value.
    pub fn as_batched(&mut self, x: &Var, shape: &[usize], batch: BatchAxis) -> Var {
        let to = Var { name: "".into(), dtype: x.dtype, shape: shape.to_vec(), batch: Some(batch) };
        if to.is_contiguous_by_sample() {
            return self.reshape(x, shape, Some(batch));
        }
        let before = shape[..batch.axis].iter().product::<usize>() * batch.outer;
        let after = batch.inner * shape[batch.axis + 1..].iter().product::<usize>();
        let x = self.reshape(x, &[1, before, after], Some(BATCH_FIRST));
        let x = self.transpose(&x, &[1, 0, 2]);
        self.reshape(&x, shape, Some(batch))
    }

    /// Gives the graph output `name` the tensor `var`: the node that produces it writes it under that name, unless it is
    /// the model's own or already another output, which are copied.
    pub fn output(&mut self, var: &Var, name: &str) {
        self.write_as(var, name, var.name.starts_with("dp.v"));
    }

    /// As [`output`](Self::output), for a graph whose reader knows the model's tensors by no other name: one that a node writes is not
    /// copied.
    pub fn take_over(&mut self, var: &Var, name: &str) {
        let is_written = self.nodes.iter().any(|node| node.output.iter().any(|output| **output == *var.name));
        self.write_as(var, name, is_written);
    }

    fn write_as(&mut self, var: &Var, name: &str, may_rename: bool) {
        if let Some(earlier) = self.renamed.get(&var.name).cloned() {
            self.identity(&earlier, name);
        } else if !may_rename {
            // Not an Identity: onnxruntime 1.31 loses its input where that is a Reshape which a MatMul reads too.
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
                for tensor in node.input.iter_mut().chain(&mut node.output) {
                    if **tensor == *var.name {
                        *tensor = name.into();
                    }
                }
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

/// What a node computes, whatever it is called.
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

/// The second input of a `Reshape`: -1 where the batch is.
pub fn reshape_target(shape: &[usize], batch: Option<BatchAxis>) -> Vec<i64> {
    let mut target: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    if let Some(batch) = batch {
        target[batch.axis] = -1;
    }
    target
}
