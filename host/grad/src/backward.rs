//! Backward context of a node, the interface for differentiation rules.

use super::broadcast::unbroadcast;
use super::derive_error::DeriveError;
use super::emit::{BATCH_FIRST, Emitter, Var};
use super::factor::{FactoredGrad, Grad};
use super::integers::reduced_axes;
use damper_onnx::graph::{BatchAxis, Graph, Node, Tensor, TensorData, Value, ValueId};
use damper_onnx::{attr_float, attr_int, attr_ints, attr_string};

/// View of one node for its rule: inputs `x(i)`, outputs `y(i)`, and the output's gradient `gy()`. The rule adds input
/// gradients with `gx(i, …)`.
pub struct BackwardContext<'a> {
    pub em: &'a mut Emitter,
    graph: &'a Graph,
    node: &'a Node,
    forward: &'a [Option<Var>],
    wanted: &'a [bool],
    grads: &'a mut [Option<Grad>],
}

impl<'a> BackwardContext<'a> {
    /// Creates the context. `forward`, `wanted` and `grads` have an entry for each value of the graph.
    pub fn new(
        em: &'a mut Emitter,
        graph: &'a Graph,
        node: &'a Node,
        forward: &'a [Option<Var>],
        wanted: &'a [bool],
        grads: &'a mut [Option<Grad>],
    ) -> Self {
        Self { em, graph, node, forward, wanted, grads }
    }

    /// Input `i`.
    pub fn x(&self, i: usize) -> Var {
        let id = self.node.inputs[i].expect("the input is there");
        self.forward[id.0].clone().expect("emitted before the sweep")
    }

    /// Number of inputs.
    pub fn arity(&self) -> usize {
        self.node.inputs.len()
    }

    /// Returns true if input `i` is present.
    pub fn has(&self, i: usize) -> bool {
        self.node.inputs.get(i).is_some_and(Option::is_some)
    }

    /// Output 0.
    pub fn y(&self) -> Var {
        self.output(0)
    }

    /// Output `slot`.
    pub fn output(&self, slot: usize) -> Var {
        self.forward[self.node.outputs[slot].0].clone().expect("emitted before the sweep")
    }

    /// Output 0, with each NaN replaced by 0 if its gradient `gy` is 0 because a later `Where` selected the other side.
    /// The result of a rule that is linear in `gy` is then 0. Without such a `Where`, returns output 0 unchanged.
    pub fn chosen_y(&mut self, gy: &Var) -> Var {
        let y = self.y();
        if !is_chosen_from(self.graph, self.node.outputs[0]) {
            return y;
        }
        let zero = self.em.scalar(y.dtype, 0.0);
        let is_nan = self.em.probe("IsNaN", &y);
        let is_left = self.em.compare("Equal", gy, &zero);
        let is_left = self.em.compare("And", &is_nan, &is_left);
        self.em.choose(&is_left, &zero, &y)
    }

    /// Returns true if the gradient of input `i` leads to a trained parameter.
    pub fn wants(&self, i: usize) -> bool {
        self.node.inputs.get(i).copied().flatten().is_some_and(|id| self.wanted[id.0])
    }

    /// Gradient of output 0 in its layout, or `[N, *shape]` if it is not batched.
    pub fn gy(&mut self) -> Var {
        let grad = self.gy_any();
        grad.dense(self.em)
    }

    /// Gradient of output 0, dense or factored.
    pub fn gy_any(&self) -> Grad {
        self.grads[self.node.outputs[0].0].clone().expect("the output is reached")
    }

    /// Offset of the axes of `gy` from those of `y`: 1 if `y` is not batched.
    pub fn shift(&self) -> usize {
        self.y_value().batch.is_none() as usize
    }

    /// Adds `contribution` to the gradient of input `i`. It must have the layout of `gy`, or broadcast to or from the
    /// input.
    pub fn gx(&mut self, i: usize, contribution: Var) {
        let id = self.node.inputs[i].expect("the input is there");
        let settled = unbroadcast(self.em, &contribution, &self.graph.values[id.0]);
        accumulate(self.em, self.grads, id, Grad::Dense(settled));
    }

    /// Adds a factored gradient to input `i`, which must not be batched.
    pub fn gx_factored(&mut self, i: usize, factors: FactoredGrad) {
        let id = self.node.inputs[i].expect("the input is there");
        debug_assert_eq!(factors.shape(), self.graph.values[id.0].shape);
        accumulate(self.em, self.grads, id, Grad::Factored(factors));
    }

    /// Shape and batch axis of the gradient of input `i`.
    pub fn layout(&self, i: usize) -> (Vec<usize>, BatchAxis) {
        let value = &self.graph.values[self.node.inputs[i].expect("the input is there").0];
        match value.batch {
            Some(batch) => (value.shape.clone(), batch),
            None => ([&[1], &value.shape[..]].concat(), BATCH_FIRST),
        }
    }

    /// Value of input `i`, if it is constant.
    pub fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph.constant(self.node.inputs.get(i).copied().flatten()?)
    }

    /// Integers of input `i`, if they are constant.
    pub fn constant_ints(&self, i: usize) -> Option<Vec<i64>> {
        match &self.constant(i)?.data {
            TensorData::I64(values) => Some(values.clone()),
            TensorData::I32(values) => Some(values.iter().map(|&v| i64::from(v)).collect()),
            _ => None,
        }
    }

    /// Graph and node of this context.
    pub fn place(&self) -> (&'a Graph, &'a Node) {
        (self.graph, self.node)
    }

    /// Axes of a reduction. Fails if they are not constant.
    pub fn reduced_axes(&self) -> Result<Vec<usize>, DeriveError> {
        let axes = reduced_axes(self.graph, self.node, self.x(0).rank());
        axes.ok_or_else(|| self.refuse("its axes are not a constant", "export it with constant axes"))
    }

    /// Integer attribute `name`.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        attr_int(&self.node.attributes, name, default)
    }

    /// Float attribute `name`.
    pub fn float(&self, name: &str, default: f32) -> f64 {
        f64::from(attr_float(&self.node.attributes, name, default))
    }

    /// Integer list attribute `name`, if present.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        attr_ints(&self.node.attributes, name).map(<[i64]>::to_vec)
    }

    /// String attribute `name`.
    pub fn string(&self, name: &str) -> &'a str {
        attr_string(&self.node.attributes, name, "")
    }

    /// Error for this node.
    pub fn refuse(&self, reason: impl Into<String>, remedy: impl Into<String>) -> DeriveError {
        DeriveError::of(self.node, reason, remedy)
    }

    /// Input `i` as rows: with the batch on axis 0, alone or merged with positions.
    pub fn x_rows(&mut self, i: usize) -> Var {
        let x = self.x(i);
        rows(self.em, &x)
    }

    /// Output 0 as rows.
    pub fn y_rows(&mut self) -> Var {
        let y = self.y();
        rows(self.em, &y)
    }

    /// Gradient of output 0 as rows, in the layout of `y_rows`.
    pub fn gy_rows(&mut self) -> Var {
        let gy = self.gy();
        if self.shift() == 0 {
            return rows(self.em, &gy);
        }
        let batch = BatchAxis { inner: gy.shape[1], ..BATCH_FIRST };
        self.em.reshape(&gy, &gy.shape[1..], Some(batch))
    }

    /// Adds to the gradient of input `i` a tensor in the layout of `x_rows(i)`.
    pub fn gx_rows(&mut self, i: usize, contribution: Var) {
        let (shape, batch) = self.layout(i);
        let contribution = self.em.reshape(&contribution, &shape, Some(batch));
        self.gx(i, contribution);
    }

    fn y_value(&self) -> &Value {
        &self.graph.values[self.node.outputs[0].0]
    }
}

/// Operators between a value and a `Where` that propagate a gradient of 0.
const BEFORE_CHOICE: &[&str] =
    &["Add", "Cast", "Concat", "Expand", "Identity", "Mul", "Neg", "Reshape", "Slice", "Sub", "Transpose"];

/// Returns true if a `Where` selects from the entries of `value`, like a guard against NaN.
fn is_chosen_from(graph: &Graph, value: ValueId) -> bool {
    let mut found = vec![value];
    for node in &graph.nodes {
        let reads = node.inputs.iter().flatten().any(|id| found.contains(id));
        if reads && node.op == "Where" && node.inputs[1..].iter().flatten().any(|id| found.contains(id)) {
            return true;
        }
        if reads && BEFORE_CHOICE.contains(&&*node.op) {
            found.extend(&node.outputs);
        }
    }
    false
}

/// `x` with the batch on axis 0: unchanged if it is there, merged with the axis before it, or repeated for every
/// sample.
fn rows(em: &mut Emitter, x: &Var) -> Var {
    match x.batch {
        Some(batch) if batch.axis == 0 => x.clone(),
        Some(batch) => {
            debug_assert_eq!(batch.axis, 1, "rows of {x:?}");
            let shape = [&[x.shape[0] * x.shape[1], 1], &x.shape[2..]].concat();
            em.reshape(x, &shape, Some(BatchAxis { axis: 0, outer: x.shape[0] * batch.outer, ..batch }))
        }
        None => {
            let one = em.reshape(x, &[&[1], &x.shape[..]].concat(), None);
            let all = em.expand(&one, &one.shape, Some(BATCH_FIRST));
            em.reshape(&all, &x.shape, Some(BatchAxis { inner: x.shape[0], ..BATCH_FIRST }))
        }
    }
}

/// Adds `grad` to the gradient of `value`.
pub fn accumulate(em: &mut Emitter, grads: &mut [Option<Grad>], value: ValueId, grad: Grad) {
    grads[value.0] = Some(match grads[value.0].take() {
        None => grad,
        Some(sum) => sum.sum(grad, em),
    });
}
