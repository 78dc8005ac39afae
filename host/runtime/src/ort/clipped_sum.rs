//! Custom operators for the clipped sum over a batch's gradients: squared norms, and a weighted sum of rows. They need
//! two passes. Standard nodes need six, and two more tensors of the gradients' size.

use super::operator::{Kernel, Operator};
use super::row_sums;
use pulp::{Arch, Simd, WithSimd};

/// `X [N, ..] → (Σ X²) [N]`.
pub(super) const SQUARED_NORMS: Operator<SquaredNorms> =
    Operator { name: "SquaredNorms", inputs: [1, 0], outputs: [1, 0], kernel: |_| SquaredNorms(Arch::new()) };

/// `(weight [N], X [N, n]) → (Σ weight · X) [1, n]`. Rows of weight 0 are not read.
pub(super) const WEIGHTED_SUM: Operator<WeightedSum> =
    Operator { name: "WeightedSum", inputs: [2, 0], outputs: [1, 0], kernel: |_| WeightedSum(Arch::new()) };

/// Block length. The squares of a block are summed as `f32` in the lanes of [`rows`], and the sums of blocks as `f64`.
const BLOCK: usize = 1 << 11;

/// Entries of the sum that stay in the cache during the pass over the rows.
const RUN: usize = 1 << 12;

pub(super) struct SquaredNorms(Arch);

impl Kernel for SquaredNorms {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some([samples, ..])] = *inputs else { return None };
        Some(vec![vec![*samples]])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x)], [Some(norms)]) = (inputs, outputs) else { return None };
        self.0.dispatch(Norms { x, norms });
        Some(())
    }
}

struct Norms<'a> {
    x: &'a [f32],
    norms: &'a mut [f32],
}

impl WithSimd for Norms<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.x.len() / self.norms.len().max(1);
        for (norm, row) in self.norms.iter_mut().zip(self.x.chunks_exact(width.max(1))) {
            let mut total = 0.0;
            for block in row.chunks(BLOCK) {
                total += f64::from(row_sums::dot(block, block));
            }
            *norm = total as f32;
        }
    }
}

pub(super) struct WeightedSum(Arch);

impl Kernel for WeightedSum {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some([weights]), Some([samples, width])] = *inputs else { return None };
        (weights == samples).then(|| vec![vec![1, *width]])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(weights), Some(x)], [Some(sum)]) = (inputs, outputs) else { return None };
        self.0.dispatch(Add { weights, x, sum });
        Some(())
    }
}

struct Add<'a> {
    weights: &'a [f32],
    x: &'a [f32],
    sum: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.sum.len();
        for (run, sum) in self.sum.chunks_mut(RUN).enumerate() {
            sum.fill(0.0);
            for (weight, row) in self.weights.iter().zip(self.x.chunks_exact(width)) {
                if *weight == 0.0 {
                    continue;
                }
                for (sum, x) in sum.iter_mut().zip(&row[run * RUN..]) {
                    *sum += weight * x;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::operator::node;
    use super::super::testing::{BATCH, apart, assert_samples_stay_alone, batched, model, numbers, parameter, run};
    use super::*;
    use crate::SessionSpec;
    use damper_onnx::pb;
    use pulp::Scalar;

    fn squared_norms(n: usize) -> (pb::ModelProto, SessionSpec) {
        model(
            vec![node("SquaredNorms", &["x"], &["y"], vec![])],
            &[],
            vec![batched("x", &[n])],
            vec![batched("y", &[])],
        )
    }

    fn weighted_sum(n: usize) -> (pb::ModelProto, SessionSpec) {
        let inputs = vec![batched("weight", &[]), batched("x", &[n])];
        model(vec![node("WeightedSum", &["weight", "x"], &["y"], vec![])], &[], inputs, vec![parameter("y", &[1, n])])
    }

    #[test]
    fn they_are_squared_norms_and_sums() {
        for n in [1, 7, 37, BLOCK + 1, RUN + 19] {
            let model = squared_norms(n);
            let inputs = numbers(&model.1);
            let Some(made) = run(&model, &inputs) else { return };
            let exact = inputs[0].chunks(n).map(|row| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>());
            assert!(apart(&made[0], &exact.collect::<Vec<_>>()) < 3e-7, "{n}");

            let model = weighted_sum(n);
            let inputs = numbers(&model.1);
            let made = run(&model, &inputs).unwrap();
            let of = |at: usize| {
                let products = inputs[0].iter().zip(inputs[1].chunks(n));
                products.map(|(weight, row)| f64::from(*weight) * f64::from(row[at])).sum::<f64>()
            };
            assert!(apart(&made[0], &(0..n).map(of).collect::<Vec<_>>()) < 5e-7, "{n}");
        }
    }

    #[test]
    fn a_norm_is_of_its_sample_alone() {
        assert_samples_stay_alone(&squared_norms(BLOCK + 37), 1, &[f32::NAN, f32::INFINITY]);
    }

    #[test]
    fn row_of_weight_zero_adds_nothing() {
        let model = weighted_sum(37);
        let mut inputs = numbers(&model.1);
        inputs[0][1] = 0.0;
        let Some(plain) = run(&model, &inputs) else { return };
        inputs[1][37..2 * 37].fill(f32::NAN);
        assert_eq!(run(&model, &inputs).unwrap(), plain);
    }

    #[test]
    fn their_bits_are_those_of_any_processor() {
        let width = RUN + 37;
        let x: Vec<f32> = (0..BATCH * width).map(|i| ((i * 17 + 7) % 611) as f32 / 61.1 - 5.0).collect();
        let (mut norms, mut slow_norms) = ([0.0; BATCH], [0.0; BATCH]);
        Arch::new().dispatch(Norms { x: &x, norms: &mut norms });
        Norms { x: &x, norms: &mut slow_norms }.with_simd(Scalar::new());
        let [mut sum, mut slow_sum] = [(); 2].map(|()| vec![0.0; width]);
        Arch::new().dispatch(Add { weights: &norms, x: &x, sum: &mut sum });
        Add { weights: &norms, x: &x, sum: &mut slow_sum }.with_simd(Scalar::new());
        let bits = |made: &[f32]| made.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&norms), bits(&sum)), (bits(&slow_norms), bits(&slow_sum)));
    }
}
