//! `Softmax` of rows in one pass over memory, `e / Σe` with `e = exp(x − max)`: as nodes they are five; onnxruntime's own operator adds a
//! row up in an order that depends on where it lies. The order of [`rows`](super::rows) does not.

use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use super::rows::{self, ABREAST};
use damper_onnx::{make_attr_int, pb};
use pulp::{Arch, Simd, WithSimd};

const NAME: &str = "Softmax";

/// Where the operator can stand: for what the emitter writes for a softmax along the last axis.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>) -> Vec<Fusion> {
    (0..graph.node.len())
        .filter(|&index| graph.node[index].op_type == "Div")
        .filter_map(|index| place(graph_index, index))
        .collect()
}

fn place(graph_index: &GraphIndex<'_>, div: usize) -> Option<Fusion> {
    let y = graph_index.output(div);
    let (div, [exp, sum]) = graph_index.pair("Div", y)?;
    let (product, of, n) = graph_index.sum(sum).filter(|(_, of, _)| *of == exp)?;
    let (exponential, shifted) = graph_index.producer("Exp", of)?;
    let (sub, [x, top]) = graph_index.pair("Sub", shifted[0])?;
    let (reduce, reduced) = graph_index.producer("ReduceMax", top)?;
    let nodes = vec![div, product, exponential, sub, reduce];
    // Of one axis for the sum and the extreme, as the emitter's own are.
    let is_emitted = nodes.iter().all(|&node| graph_index.output(node).starts_with("dp."));
    if reduced[0] != x || !is_emitted || !graph_index.can_go(&nodes, &[y]) {
        return None;
    }
    Some(Fusion { nodes, operator: node(NAME, &[x], &[y], vec![make_attr_int("width", n as i64)]) })
}

/// `x [.., n] → y [.., n]`, with the attribute `width` (`n`).
pub(super) struct Softmax;

impl Operator for Softmax {
    type Kernel = Rows;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 1, optional: 0 }
    }

    fn kernel(&self, attributes: &Attributes<'_>) -> Rows {
        Rows { width: attributes.int("width"), vectors: Arch::new() }
    }
}

/// A node's.
pub(super) struct Rows {
    width: i64,
    vectors: Arch,
}

impl Kernel for Rows {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(x)] = *inputs else { return None };
        let fits = self.width > 0 && x.last() == Some(&self.width);
        fits.then(|| vec![Some(x.to_vec())])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x)], [Some(y)]) = (inputs, outputs) else { return None };
        self.vectors.dispatch(Run { x, n: self.width as usize, y });
        Some(())
    }
}

struct Run<'a> {
    x: &'a [f32],
    n: usize,
    y: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let n = self.n;
        for (x, y) in self.x.chunks(ABREAST * n).zip(self.y.chunks_mut(ABREAST * n)) {
            let mut tops = [0.0; ABREAST];
            for (top, x) in tops.iter_mut().zip(x.chunks_exact(n)) {
                *top = rows::largest(x);
            }
            for ((x, y), top) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).zip(tops) {
                rows::exponentials(x, top, y);
            }
            let mut scales = [0.0; ABREAST];
            for (scale, y) in scales.iter_mut().zip(y.chunks_exact(n)) {
                *scale = 1.0 / rows::sum(y);
            }
            for (y, scale) in y.chunks_exact_mut(n).zip(scales) {
                for y in y {
                    *y *= scale;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, node, numbers, put, run};
    use super::*;
    use crate::Plan;
    use pulp::Scalar;

    const LINES: usize = 3;

    /// What the emitter writes for rows of `n` entries under the names `dp.…`, with further outputs.
    fn written(n: usize, names: &str, outputs: &[(&str, usize)]) -> (pb::ModelProto, Plan) {
        let nodes = ["t = ReduceMax(x)", "c = Sub(x, t)", "e = Exp(c)", "s = MatMul(e, ones)", "y = Div(e, s)"];
        let mut nodes = nodes.map(node);
        for node in &mut nodes {
            for name in node.input.iter_mut().chain(&mut node.output).filter(|name| !["x", "ones"].contains(&&***name))
            {
                *name = format!("{names}{name}");
            }
        }
        nodes[0].attribute = vec![damper_onnx::make_attr_ints("axes", &[-1])];
        let outputs = outputs.iter().map(|(name, n)| batched(&format!("{names}{name}"), &[LINES, *n])).collect();
        model(nodes.to_vec(), &[("ones", &[n, 1], &vec![1.0; n])], vec![batched("x", &[LINES, n])], outputs)
    }

    #[test]
    fn it_stands_for_a_softmax_of_the_emitters_of_which_nothing_else_is_read() {
        assert_eq!(put(&written(37, "dp.", &[("y", 37)])), [NAME]);
        assert_eq!(put(&written(37, "", &[("y", 37)])), [""; 5]);
        for other in [("t", 1), ("c", 37), ("e", 37), ("s", 1)] {
            assert_eq!(put(&written(37, "dp.", &[("y", 37), other])), [""; 5], "{other:?}");
        }
    }

    #[test]
    fn it_is_the_softmax() {
        for n in [1, 2, 16, 37, 65, 259] {
            let model = written(n, "dp.", &[("y", n)]);
            let mut inputs = numbers(&model.1);
            if n > 2 {
                // A mask.
                inputs[0][1] = f32::NEG_INFINITY;
                inputs[0][2] = f32::MIN;
            }
            let Some(made) = run(&model, &inputs) else { return };
            let exact = inputs[0].chunks(n).flat_map(|row| {
                let exp: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
                let sum: f64 = exp.iter().sum();
                exp.into_iter().map(move |exp| exp / sum)
            });
            let exact: Vec<f64> = exact.collect();
            assert!(apart(&made[0], &exact) < 5e-7, "{n}: {}", apart(&made[0], &exact));
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        for n in [16, 65] {
            let (model, plan) = written(n, "dp.", &[("y", n)]);
            // −∞ beside finite numbers is a mask, not a sample that is not finite.
            assert_samples_stay_alone(&(model, plan), 1, &[f32::NAN, f32::INFINITY]);
        }
    }

    #[test]
    fn a_row_that_is_masked_whole_is_not_a_number() {
        let model = written(4, "dp.", &[("y", 4)]);
        let mut inputs = numbers(&model.1);
        inputs[0][4..8].fill(f32::NEG_INFINITY);
        let Some(made) = run(&model, &inputs) else { return };
        assert!(made[0][4..8].iter().all(|y| y.is_nan()));
        assert!(made[0][..4].iter().chain(&made[0][8..]).all(|y| y.is_finite()));
    }

    #[test]
    fn its_bits_are_those_of_any_processor() {
        let x: Vec<f32> = (0..4 * 259).map(|i| ((i * 17 + 7) % 61) as f32 / 6.1 - 5.0).collect();
        let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
        let [mut ours, mut slow] = [x.clone(), x.clone()];
        Arch::new().dispatch(Run { x: &x, n: 259, y: &mut ours });
        Run { x: &x, n: 259, y: &mut slow }.with_simd(Scalar::new());
        assert_eq!(bits(&ours), bits(&slow));
    }
}
