//! `scale · (g − mean(g) − x̂ · mean(g · x̂))` with `g = dY · γ`, the gradient through a normalisation of rows, in one pass over memory: as
//! nodes it is ten.

use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use super::rows::{self, ABREAST, repeats};
use damper_onnx::pb;
use pulp::{Arch, Simd, WithSimd};

const NAME: &str = "NormalizeGrad";

/// Where the operator can stand: for what the emitter writes for a normalisation over the last axis.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>) -> Vec<Fusion> {
    (0..graph.node.len()).filter_map(|index| place(graph, graph_index, index)).collect()
}

fn place(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>, last: usize) -> Option<Fusion> {
    let result = graph.node[last].output.first()?;
    let (last, [rest, scale]) = graph_index.pair("Mul", result)?;
    let (second, [centred, along]) = graph_index.pair("Sub", rest)?;
    let (first, [grad, mean]) = graph_index.pair("Sub", centred)?;
    let (means, of, n) = graph_index.mean(mean)?;
    let (multiply, [value, slope]) = graph_index.pair("Mul", along)?;
    let (slopes, product, width) = graph_index.mean(slope)?;
    let (mul, [left, right]) = graph_index.pair("Mul", product)?;
    if of != grad || width != n || (left, right) != (grad, value) {
        return None;
    }
    let mut nodes = vec![last, second, first, means[0], means[1], multiply, slopes[0], slopes[1], mul];
    let mut inputs = vec![grad, value, scale];
    if let Some((scaled, [outer, gamma])) = graph_index.pair("Mul", grad)
        && graph_index.is_vector(gamma, n)
        && !graph_index.is_read_beside(grad, &nodes)
    {
        nodes.push(scaled);
        inputs = vec![outer, value, scale, gamma];
    }
    // Of shapes that the emitter's own have.
    let is_emitted = nodes.iter().all(|&node| graph_index.output(node).starts_with("dp."));
    if !is_emitted || !graph_index.can_go(&nodes, &[result]) {
        return None;
    }
    Some(Fusion { nodes, operator: node(NAME, &inputs, &[result], vec![]) })
}

/// `(dY [.., n], x̂ [.., n], scale [.., 1], γ [n]?) → dX [.., n]`, where `x̂` and `scale` may be repeated along the first axes.
pub(super) struct NormalizeGrad;

impl Operator for NormalizeGrad {
    type Kernel = Rows;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 3, optional: 1 }
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
        let [Some(grad), Some(value), Some(scale), ref gamma @ ..] = *inputs else { return None };
        self.n = repeats(grad, value)?;
        let (width, rows) = value.split_last()?;
        let is_off = gamma.iter().flatten().any(|gamma| *gamma != [*width]);
        let is_one_a_row = scale.iter().product::<i64>() == rows.iter().product::<i64>();
        (is_one_a_row && !is_off).then(|| vec![Some(grad.to_vec())])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(value), Some(scale), gamma @ ..], [Some(into)]) = (inputs, outputs) else { return None };
        let gamma = gamma.first().copied().flatten();
        self.vectors.dispatch(Run { grad, value, scale, gamma, n: self.n, into });
        Some(())
    }
}

struct Run<'a> {
    grad: &'a [f32],
    value: &'a [f32],
    scale: &'a [f32],
    gamma: Option<&'a [f32]>,
    n: usize,
    into: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let n = self.n;
        let factor = (1.0 / n as f64) as f32;
        let mut of_rows = self.value.chunks_exact(n).zip(self.scale).cycle();
        for (grad, into) in self.grad.chunks(ABREAST * n).zip(self.into.chunks_mut(ABREAST * n)) {
            match self.gamma {
                Some(gamma) => {
                    for (into, grad) in into.chunks_exact_mut(n).zip(grad.chunks_exact(n)) {
                        for ((into, grad), gamma) in into.iter_mut().zip(grad).zip(gamma) {
                            *into = grad * gamma;
                        }
                    }
                }
                None => into.copy_from_slice(grad),
            }
            let mut of: [(&[f32], [f32; 3]); ABREAST] = [(&[], [0.0; 3]); ABREAST];
            for (of, into) in of.iter_mut().zip(into.chunks_exact(n)) {
                let Some((value, &scale)) = of_rows.next() else { return };
                *of = (value, [rows::sum(into) * factor, rows::dot(into, value) * factor, scale]);
            }
            for (into, (value, [mean, slope, scale])) in into.chunks_exact_mut(n).zip(of) {
                for (into, value) in into.iter_mut().zip(value) {
                    *into = (*into - mean - value * slope) * scale;
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
    const NODES: [&str; 10] = [
        "dp.g = Mul(gy, gamma)",
        "dp.s = MatMul(dp.g, ones)",
        "dp.m = Mul(dp.s, factor)",
        "dp.p = Mul(dp.g, value)",
        "dp.t = MatMul(dp.p, ones)",
        "dp.l = Mul(dp.t, factor)",
        "dp.a = Mul(value, dp.l)",
        "dp.c = Sub(dp.g, dp.m)",
        "dp.r = Sub(dp.c, dp.a)",
        "dp.gx = Mul(dp.r, scale)",
    ];

    fn written(n: usize, is_batched: bool, outputs: &[(&str, usize)]) -> (pb::ModelProto, Plan) {
        let spec = |name, n| if is_batched { batched(name, &[LINES, n]) } else { parameter(name, &[LINES, n]) };
        let inputs = vec![batched("gy", &[LINES, n]), spec("value", n), spec("scale", 1), parameter("gamma", &[n])];
        let outputs = outputs.iter().map(|(name, n)| batched(name, &[LINES, *n])).collect();
        let (ones, factor) = (vec![1.0; n], [(1.0 / n as f64) as f32]);
        let constants: [(&str, &[usize], &[f32]); 2] = [("ones", &[n, 1], &ones), ("factor", &[], &factor)];
        model(NODES.map(node).to_vec(), &constants, inputs, outputs)
    }

    #[test]
    fn it_stands_for_a_gradient_of_which_nothing_else_is_read() {
        assert_eq!(put(&written(37, true, &[("dp.gx", 37)])), [NAME]);
        assert_eq!(put(&written(37, true, &[("dp.gx", 37), ("dp.g", 37)])), ["", NAME]);
        for other in [("dp.p", 37), ("dp.m", 1), ("dp.l", 1), ("dp.a", 37), ("dp.c", 37)] {
            assert!(!put(&written(37, true, &[("dp.gx", 37), other])).contains(&NAME.to_string()), "{other:?}");
        }
        let (mut other, plan) = written(37, true, &[("dp.gx", 37)]);
        other.graph.as_mut().unwrap().node[6].input[0] = "gy".into();
        assert!(!put(&(other, plan)).contains(&NAME.to_string()));
    }

    #[test]
    fn it_is_the_gradient() {
        for (n, is_batched) in [(2, true), (37, true), (65, false), (259, true)] {
            for outputs in [&[("dp.gx", n)][..], &[("dp.gx", n), ("dp.g", n)]] {
                let model = written(n, is_batched, outputs);
                let inputs = numbers(&model.1);
                let Some(made) = run(&model, &inputs) else { return };
                let mut exact = vec![];
                for (row, grad) in inputs[0].chunks(n).enumerate() {
                    let row = row % (inputs[1].len() / n);
                    let of = |i: usize| f64::from(grad[i]) * f64::from(inputs[3][i]);
                    let value = |i: usize| f64::from(inputs[1][row * n + i]);
                    let mean = (0..n).map(of).sum::<f64>() / n as f64;
                    let slope = (0..n).map(|i| of(i) * value(i)).sum::<f64>() / n as f64;
                    let scale = f64::from(inputs[2][row]);
                    exact.extend((0..n).map(|i| (of(i) - mean - value(i) * slope) * scale));
                }
                assert!(apart(&made[0], &exact) < 1e-5, "{n}: {}", apart(&made[0], &exact));
            }
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&written(65, true, &[("dp.gx", 65)]), 3, &BAD);
        assert_samples_stay_alone(&written(32, false, &[("dp.gx", 32)]), 1, &BAD);
    }
}
