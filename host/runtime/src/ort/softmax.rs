//! `Softmax` of rows in one pass over memory, `e / Σe` with `e = exp(x − max)`. Standard nodes need five passes. The
//! order of sums in onnxruntime's operator depends on the address of a row. The order of [`rows`](super::rows) does
//! not.

use super::operator::{Kernel, Operator};
use super::row_sums::{self, ABREAST};
use pulp::{Arch, Simd, WithSimd};

/// `x [.., n] → y [.., n]`.
pub(super) const SOFTMAX: Operator<Rows> =
    Operator { name: "Softmax", inputs: [1, 0], outputs: [1, 0], kernel: |_| Rows { n: 0, vectors: Arch::new() } };

/// Kernel of a node.
pub(super) struct Rows {
    n: usize,
    vectors: Arch,
}

impl Kernel for Rows {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(x)] = *inputs else { return None };
        self.n = usize::try_from(*x.last()?).ok().filter(|n| *n > 0)?;
        Some(vec![x.to_vec()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x)], [Some(y)]) = (inputs, outputs) else { return None };
        self.vectors.dispatch(Run { x, n: self.n, y });
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
                *top = row_sums::largest(x);
            }
            for ((x, y), top) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).zip(tops) {
                row_sums::exponentials(x, top, y);
            }
            let mut scales = [0.0; ABREAST];
            for (scale, y) in scales.iter_mut().zip(y.chunks_exact(n)) {
                *scale = 1.0 / row_sums::sum(y);
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
    use super::super::operator::node;
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, numbers, run};
    use super::*;
    use crate::SessionSpec;
    use damper_onnx::pb;
    use pulp::Scalar;

    const LINES: usize = 3;

    /// Model and plan of the operator on rows of `n` entries.
    fn softmax(n: usize) -> (pb::ModelProto, SessionSpec) {
        let [x, y] = ["x", "y"].map(|name| vec![batched(name, &[LINES, n])]);
        model(vec![node("Softmax", &["x"], &["y"], vec![])], &[], x, y)
    }

    #[test]
    fn it_is_the_softmax() {
        for n in [1, 2, 16, 37, 65, 259] {
            let model = softmax(n);
            let mut inputs = numbers(&model.1);
            if n > 2 {
                // Mask.
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
            let (model, plan) = softmax(n);
            // −∞ next to finite values is a mask and does not make the sample non-finite.
            assert_samples_stay_alone(&(model, plan), 1, &[f32::NAN, f32::INFINITY]);
        }
    }

    #[test]
    fn fully_masked_row_is_nan() {
        let model = softmax(4);
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
