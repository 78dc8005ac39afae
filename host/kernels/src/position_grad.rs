//! Gradient of a matrix that is multiplied at many positions of a sample (the tokens of a linear layer):
//! `G[r, c] = Σ_t L[t, r] · R[t, c]`.
//!
//! Memory: that of [`SimdProduct`], with the rows of `Lᵀ` stored as columns.
//!
//! Numerics: those of [`SimdProduct`], with positions as its terms.

use crate::product::SimdProduct;
use crate::simd::SimdKernel;

/// Gradient of one matrix, with its memory.
#[derive(Debug)]
pub struct PositionGrad(SimdProduct);

impl PositionGrad {
    /// Gradient for this many positions and columns, at least one of each.
    pub fn new(positions: usize, columns: usize) -> Self {
        Self(SimdProduct::of_columns([positions, columns]))
    }

    /// Writes the gradient `[rows, columns]` of `left` `[positions, rows]` and `right` `[positions, columns]`.
    pub fn write(&mut self, left: &[f32], right: &[f32], grad: &mut [f32]) {
        self.0.run(left, right, None, grad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::testing::numbers;

    // The gradient is the sum over the positions. Nothing in its memory carries over from the previous call.
    #[test]
    fn gradient_is_sum_over_positions() {
        for (positions, rows, columns) in [(1, 3, 5), (2, 40, 3), (65, 24, 33), (64, 7, 96), (3, 1, 1)] {
            let mut kernel = PositionGrad::new(positions, columns);
            for seed in 1..3 {
                let (left, right) = (numbers(positions * rows, seed), numbers(positions * columns, seed + 7));
                let mut grad = vec![f32::NAN; rows * columns];
                kernel.write(&left, &right, &mut grad);
                for (at, found) in grad.iter().enumerate() {
                    let (row, column) = (at / columns, at % columns);
                    let entry = |t: usize| f64::from(left[t * rows + row]) * f64::from(right[t * columns + column]);
                    let want: f64 = (0..positions).map(entry).sum();
                    let size: f64 = (0..positions).map(|t| entry(t).abs()).sum();
                    assert!(
                        (f64::from(*found) - want).abs() <= 1e-6 * size,
                        "{positions} {rows} {columns}: {found} {want}"
                    );
                }
            }
        }
    }
}
