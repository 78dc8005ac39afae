//! Gradient of a row softmax, `Y · (dY − Σ dY · Y)`, in one pass over memory. Standard nodes need four.

use super::operator::{Kernel, Operator};
use super::row_sums::{self, ABREAST, repeats};
use pulp::{Arch, Simd, WithSimd};

/// `(dY [.., n], Y [.., n]) → dX [.., n]`. `Y` may be broadcast along the first axes.
pub(super) const SOFTMAX_GRAD: Operator<Rows> =
    Operator { name: "SoftmaxGrad", inputs: [2, 0], outputs: [1, 0], kernel: |_| Rows { n: 0, vectors: Arch::new() } };

/// Kernel of a node.
pub(super) struct Rows {
    n: usize,
    vectors: Arch,
}

impl Kernel for Rows {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(grad), Some(y)] = *inputs else { return None };
        self.n = repeats(grad, y)?;
        Some(vec![grad.to_vec()])
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
                *of = (y, row_sums::dot(grad, y));
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
    use super::super::operator::node;
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, numbers, parameter, run};
    use crate::SessionSpec;
    use damper_onnx::pb;

    const LINES: usize = 3;

    /// Operator on rows of `n` entries, of a softmax that is per-sample or shared by all samples.
    fn gradient(n: usize, is_batched: bool) -> (pb::ModelProto, SessionSpec) {
        let y = if is_batched { batched("y", &[LINES, n]) } else { parameter("y", &[LINES, n]) };
        let node = node("SoftmaxGrad", &["gy", "y"], &["gx"], vec![]);
        model(vec![node], &[], vec![batched("gy", &[LINES, n]), y], vec![batched("gx", &[LINES, n])])
    }

    #[test]
    fn it_is_the_gradient() {
        for (n, is_batched) in [(2, true), (37, true), (65, false), (259, true)] {
            let model = gradient(n, is_batched);
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
        assert_samples_stay_alone(&gradient(65, true), 2, &BAD);
        assert_samples_stay_alone(&gradient(32, false), 1, &BAD);
    }
}
