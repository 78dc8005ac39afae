//! Sums, means and extrema over axes.

use super::Emitter;
use super::var::Var;
use damper_onnx::graph::BatchAxis;
use damper_onnx::pb::NodeProto;
use damper_onnx::{make_attr_int, make_attr_ints};

/// Operators past which onnxruntime does not move a transpose.
const STOPS: [&str; 9] =
    ["Conv", "ConvTranspose", "Expand", "Gather", "GatherElements", "Gemm", "MatMul", "Reshape", "ScatterElements"];

impl Emitter {
    /// Sum over `axes`, which must not include the batch.
    ///
    /// A sum over the last axes is a product with an all-one vector. In the runtimes' own row reductions, the order
    /// depends on the address of a row. So a sample's bits would depend on its position in the batch. A sum over other
    /// axes adds rows in a fixed order. But onnxruntime moves a transpose from before such a sum to after it, which may
    /// make it a sum over the last axes. So after a transpose it is also emitted as a product. A sum over the last axes
    /// and others is a sum of rows, then a sum over the others.
    pub fn reduce_sum(&mut self, x: &Var, axes: &[usize], keep: bool) -> Var {
        let first = axes.iter().copied().filter(|&a| x.shape[a] != 1).min();
        let Some(first) = first else {
            let (shape, batch) = reduced(x, axes, keep);
            return self.reshape(x, &shape, batch);
        };
        let is_last = (first..x.rank()).all(|i| axes.contains(&i) || x.shape[i] == 1);
        if first > 0 && is_last && x.batch.is_none_or(|b| b.axis < first) {
            return self.sum_of_rows(x, first, reduced(x, axes, keep));
        }
        let Some(batch) = x.batch else {
            return self.reduce("ReduceSum", x, axes, keep);
        };
        let is_summed = |i: &usize| *i != batch.axis && (axes.contains(i) || x.shape[*i] == 1);
        let (rows, others): (Vec<usize>, Vec<usize>) = {
            let start = x.rank() - (0..x.rank()).rev().take_while(is_summed).count();
            axes.iter().partition(|axis| **axis >= start)
        };
        if rows.iter().any(|&i| x.shape[i] != 1) {
            let sums = self.reduce_sum(x, &rows, true);
            let sum = self.reduce_sum(&sums, &others, true);
            let (shape, batch) = reduced(x, axes, keep);
            return self.reshape(&sum, &shape, batch);
        }
        if !self.is_transposed(x) {
            return self.reduce("ReduceSum", x, axes, keep);
        }
        let (inside, order): (Vec<usize>, Vec<usize>) = (0..x.rank()).partition(|i| axes.contains(i));
        let transposed = self.transpose(x, &[&order[..], &inside].concat());
        self.sum_of_rows(&transposed, order.len(), reduced(x, axes, keep))
    }

    /// Sum over the axes from `first` on, in the given shape.
    fn sum_of_rows(&mut self, x: &Var, first: usize, (shape, batch): (Vec<usize>, Option<BatchAxis>)) -> Var {
        let width = x.shape[first..].iter().product();
        let rows = self.reshape(x, &[&x.shape[..first], &[width]].concat(), x.batch);
        let ones = self.floats(x.dtype, &[width, 1], vec![1.0; width]);
        let sums = self.product(&rows, &ones);
        self.reshape(&sums, &shape, batch)
    }

    /// Returns true if a runtime may permute the axes of `x`. It is then a transpose, or follows a transpose that
    /// onnxruntime may move to after it.
    fn is_transposed(&self, x: &Var) -> bool {
        self.transposed.contains(&*self.original(&x.name))
    }

    /// Records the outputs of `node` if they are transposed.
    pub(super) fn note_turned(&mut self, node: &NodeProto) {
        let stops = STOPS.contains(&node.op_type.as_str());
        if node.op_type == "Transpose" || !stops && node.input.iter().any(|name| self.transposed.contains(&**name)) {
            self.transposed.extend(node.output.iter().map(|name| name.as_str().into()));
        }
    }

    /// Records `to`, a reshape of `from`, if it only inserts or removes axes of one element.
    pub(super) fn note_reshaped(&mut self, from: &Var, to: &Var) {
        let long = |v: &Var| {
            let is_batch = |i: usize| v.batch.is_some_and(|b| b.axis == i);
            let axes = (0..v.rank()).filter(|&i| v.shape[i] != 1 || is_batch(i));
            axes.map(|i| (v.shape[i], is_batch(i))).collect::<Vec<_>>()
        };
        if self.is_transposed(from) && long(from) == long(to) {
            self.transposed.insert(to.name.clone());
        }
    }

    /// Mean over `axes`, which must not include the batch.
    pub fn reduce_mean(&mut self, x: &Var, axes: &[usize], keep: bool) -> Var {
        let count: usize = axes.iter().map(|&a| x.shape[a]).product();
        let sum = self.reduce_sum(x, axes, keep);
        self.scale(&sum, 1.0 / count as f64)
    }

    /// Maximum over `axes`.
    pub fn reduce_max(&mut self, x: &Var, axes: &[usize], keep: bool) -> Var {
        self.reduce("ReduceMax", x, axes, keep)
    }

    /// Reduction over `axes`, which must not include the batch.
    fn reduce(&mut self, op: &str, x: &Var, axes: &[usize], keep: bool) -> Var {
        assert!(x.batch.is_none_or(|b| !axes.contains(&b.axis)), "{op} over the batch of {x:?}");
        if axes.is_empty() {
            return x.clone();
        }
        let (shape, batch) = reduced(x, axes, keep);
        let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
        let keepdims = make_attr_int("keepdims", keep as i64);
        if op == "ReduceSum" || self.opset >= 18 {
            let axes = self.ints(&list);
            self.node(op, &[x, &axes], vec![keepdims], x.dtype, shape, batch)
        } else {
            self.node(op, &[x], vec![make_attr_ints("axes", &list), keepdims], x.dtype, shape, batch)
        }
    }
}

/// Shape and batch axis of a reduction over `axes`.
fn reduced(x: &Var, axes: &[usize], keep: bool) -> (Vec<usize>, Option<BatchAxis>) {
    let kept = |i: usize| keep || !axes.contains(&i);
    let shape = (0..x.rank()).filter(|&i| kept(i)).map(|i| if axes.contains(&i) { 1 } else { x.shape[i] });
    let batch = x.batch.map(|b| BatchAxis { axis: (0..b.axis).filter(|&i| kept(i)).count(), ..b });
    (shape.collect(), batch)
}
