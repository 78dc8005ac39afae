//! Gradient of a row normalisation, `scale · (g − mean(g) − x̂ · mean(g · x̂))` with `g = dY · γ`, in one pass over
//! memory. Standard nodes need ten.

use super::operator::{Kernel, Operator};
use super::row_sums::{self, ABREAST, repeats};
use pulp::{Arch, Simd, WithSimd};

/// `(dY [.., n], x̂ [.., n], scale [.., 1], γ [n]?) → dX [.., n]`. `x̂` and `scale` may be broadcast along the first
/// axes.
pub(super) const NORMALIZE_GRAD: Operator<Rows> = Operator {
    name: "NormalizeGrad",
    inputs: [3, 1],
    outputs: [1, 0],
    kernel: |_| Rows { n: 0, vectors: Arch::new() },
};

/// Kernel of a node.
pub(super) struct Rows {
    n: usize,
    vectors: Arch,
}

impl Kernel for Rows {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(grad), Some(value), Some(scale), ref gamma @ ..] = *inputs else { return None };
        self.n = repeats(grad, value)?;
        let (width, rows) = value.split_last()?;
        let is_off = gamma.iter().flatten().any(|gamma| *gamma != [*width]);
        let is_one_a_row = scale.iter().product::<i64>() == rows.iter().product::<i64>();
        (is_one_a_row && !is_off).then(|| vec![grad.to_vec()])
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
                *of = (value, [row_sums::sum(into) * factor, row_sums::dot(into, value) * factor, scale]);
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
    use super::super::operator::node;
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, numbers, parameter, run};
    use crate::SessionSpec;
    use damper_onnx::pb;

    const LINES: usize = 3;

    /// Operator on rows of `n` entries, with values that are per-sample or shared by all samples.
    fn gradient(n: usize, is_batched: bool, has_gamma: bool) -> (pb::ModelProto, SessionSpec) {
        let spec = |name, n| if is_batched { batched(name, &[LINES, n]) } else { parameter(name, &[LINES, n]) };
        let mut inputs = vec![batched("gy", &[LINES, n]), spec("value", n), spec("scale", 1), parameter("gamma", &[n])];
        inputs.truncate(if has_gamma { 4 } else { 3 });
        let names: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
        let node = node("NormalizeGrad", &names, &["gx"], vec![]);
        model(vec![node], &[], inputs, vec![batched("gx", &[LINES, n])])
    }

    #[test]
    fn it_is_the_gradient() {
        for (n, is_batched, has_gamma) in [(2, true, true), (37, true, false), (65, false, true), (259, true, true)] {
            let model = gradient(n, is_batched, has_gamma);
            let inputs = numbers(&model.1);
            let Some(made) = run(&model, &inputs) else { return };
            let mut exact = vec![];
            for (row, grad) in inputs[0].chunks(n).enumerate() {
                let row = row % (inputs[1].len() / n);
                let of = |i: usize| f64::from(grad[i]) * inputs.get(3).map_or(1.0, |gamma| f64::from(gamma[i]));
                let value = |i: usize| f64::from(inputs[1][row * n + i]);
                let mean = (0..n).map(of).sum::<f64>() / n as f64;
                let slope = (0..n).map(|i| of(i) * value(i)).sum::<f64>() / n as f64;
                let scale = f64::from(inputs[2][row]);
                exact.extend((0..n).map(|i| (of(i) - mean - value(i) * slope) * scale));
            }
            assert!(apart(&made[0], &exact) < 1e-5, "{n}: {}", apart(&made[0], &exact));
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&gradient(65, true, true), 3, &BAD);
        assert_samples_stay_alone(&gradient(32, false, false), 1, &BAD);
    }
}
