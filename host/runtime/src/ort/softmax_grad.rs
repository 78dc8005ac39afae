//! `Y · (dY − Σ dY · Y)`, the gradient of a softmax of rows, in one pass over memory: as nodes it is four.

use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use super::rows::{self, ABREAST, repeats};
use damper_onnx::pb;
use pulp::{Arch, Simd, WithSimd};

const NAME: &str = "SoftmaxGrad";

/// Where the operator can stand: for what the emitter writes for it along the last axis.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>) -> Vec<Fusion> {
    (0..graph.node.len()).filter_map(|index| place(graph, graph_index, index)).collect()
}

fn place(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>, last: usize) -> Option<Fusion> {
    let result = graph.node[last].output.first()?;
    let (last, [y, centred]) = graph_index.pair("Mul", result)?;
    let (sub, [grad, sum]) = graph_index.pair("Sub", centred)?;
    let (matmul, product, _) = graph_index.sum(sum)?;
    let (mul, [left, right]) = graph_index.pair("Mul", product)?;
    let nodes = vec![last, sub, matmul, mul];
    // Of shapes that the emitter's own have.
    let is_emitted = nodes.iter().all(|&node| graph_index.output(node).starts_with("dp."));
    if (left, right) != (grad, y) || !is_emitted || !graph_index.can_go(&nodes, &[result]) {
        return None;
    }
    Some(Fusion { nodes, operator: node(NAME, &[grad, y], &[result], vec![]) })
}

/// `(dY [.., n], Y [.., n]) → dX [.., n]`, where `Y` may be repeated along the first axes.
pub(super) struct SoftmaxGrad;

impl Operator for SoftmaxGrad {
    type Kernel = Rows;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 2, optional: 0 }
    }

    fn kernel(&self, _: &Attributes<'_>) -> Rows {
        Rows { n: 0, vectors: Arch::new() }
    }
}

/// A node's.
pub(super) struct Rows {
    n: usize,
    vectors: Arch,
}

impl Kernel for Rows {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(grad), Some(y)] = *inputs else { return None };
        self.n = repeats(grad, y)?;
        Some(vec![Some(grad.to_vec())])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(y)], [Some(into)]) = (inputs, outputs) else { return None };
        self.vectors.dispatch(Run { grad, y, n: self.n, into });
        Some(())
    }
}

struct Run<'a> {
    grad: &'a [f32],
    y: &'a [f32],
    n: usize,
    into: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let n = self.n;
        let mut rows_of_y = self.y.chunks_exact(n).cycle();
        for (grad, into) in self.grad.chunks(ABREAST * n).zip(self.into.chunks_mut(ABREAST * n)) {
            let mut of: [(&[f32], f32); ABREAST] = [(&[], 0.0); ABREAST];
            for (of, grad) in of.iter_mut().zip(grad.chunks_exact(n)) {
                let Some(y) = rows_of_y.next() else { return };
                *of = (y, rows::dot(grad, y));
            }
            for ((into, grad), (y, sum)) in into.chunks_exact_mut(n).zip(grad.chunks_exact(n)).zip(of) {
                for ((into, grad), y) in into.iter_mut().zip(grad).zip(y) {
                    *into = y * (grad - sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, node, numbers, parameter, put, run};
    use super::*;
    use crate::Plan;

    const LINES: usize = 3;
    const NODES: [&str; 4] =
        ["dp.p = Mul(gy, y)", "dp.s = MatMul(dp.p, ones)", "dp.c = Sub(gy, dp.s)", "dp.gx = Mul(y, dp.c)"];

    fn written(n: usize, is_batched: bool, nodes: &[&str], outputs: &[(&str, usize)]) -> (pb::ModelProto, Plan) {
        let y = if is_batched { batched("y", &[LINES, n]) } else { parameter("y", &[LINES, n]) };
        let outputs = outputs.iter().map(|(name, n)| batched(name, &[LINES, *n])).collect();
        let nodes = nodes.iter().map(|written| node(written)).collect();
        model(nodes, &[("ones", &[n, 1], &vec![1.0; n])], vec![batched("gy", &[LINES, n]), y], outputs)
    }

    #[test]
    fn it_stands_for_a_gradient_of_which_nothing_else_is_read() {
        assert_eq!(put(&written(37, true, &NODES, &[("dp.gx", 37)])), [NAME]);
        for other in [("dp.p", 37), ("dp.s", 1), ("dp.c", 37)] {
            assert_eq!(put(&written(37, true, &NODES, &[("dp.gx", 37), other])), [""; 4], "{other:?}");
        }
        let others = NODES.map(|written| written.replace("dp.", ""));
        assert_eq!(put(&written(37, true, &others.each_ref().map(|name| &**name), &[("gx", 37)])), [""; 4]);
    }

    #[test]
    fn it_is_the_gradient() {
        for (n, is_batched) in [(2, true), (37, true), (65, false), (259, true)] {
            let model = written(n, is_batched, &NODES, &[("dp.gx", n)]);
            let inputs = numbers(&model.1);
            let Some(made) = run(&model, &inputs) else { return };
            let mut exact = vec![];
            for (grad, y) in inputs[0].chunks(n).zip(inputs[1].chunks(n).cycle()) {
                let pairs = || grad.iter().zip(y).map(|(grad, y)| (f64::from(*grad), f64::from(*y)));
                let sum: f64 = pairs().map(|(grad, y)| grad * y).sum();
                exact.extend(pairs().map(|(grad, y)| y * (grad - sum)));
            }
            assert!(apart(&made[0], &exact) < 1e-5, "{n}: {}", apart(&made[0], &exact));
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&written(65, true, &NODES, &[("dp.gx", 65)]), 2, &BAD);
        assert_samples_stay_alone(&written(32, false, &NODES, &[("dp.gx", 32)]), 1, &BAD);
    }
}
