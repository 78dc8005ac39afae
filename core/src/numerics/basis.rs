//! Coordinates of a matrix in a low-rank basis, and the inverse map.
//!
//! ```text
//! left, P [m,r]:    R = Pᵀ·G  [r,n]     D = P·R        right, P [n,r]:   R = G·P  [m,r]     D = R·Pᵀ        G, D [m,n]
//! ```
//!
//! # Numerics
//!
//! With `S` of [`crate::optimizer`], each element is a sum in index order, from 0. Each product and each sum has an `S`
//! of its own. Finite inputs give finite results.

use super::round::saturate;
use crate::error::{CallError, check_len};
use core::num::NonZeroUsize;

/// Side of a matrix that a basis multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The directions are combinations of rows.
    Left,
    /// The directions are combinations of columns.
    Right,
}

/// Directions `P`: `[k, r]`, one for each column. They must be orthonormal to preserve a norm.
///
/// ```
/// use core::num::NonZeroUsize;
/// use damper_core::numerics::basis::{Basis, Side};
///
/// // The first and the last row of a matrix of three rows.
/// let entries = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
/// let basis = Basis::new(&entries, NonZeroUsize::new(2).unwrap(), Side::Left)?;
/// let (mut image, mut back) = ([0.0; 4], [0.0; 6]);
/// basis.project(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut image)?;
/// assert_eq!(image, [1.0, 2.0, 5.0, 6.0]);
/// basis.lift(&image, &mut back)?;
/// assert_eq!(back, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);
/// # Ok::<(), damper_core::error::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    entries: &'a [f32],
    rank: NonZeroUsize,
    side: Side,
}

impl<'a> Basis<'a> {
    /// Creates a basis from the directions `entries` (`[k, rank]`, row-major).
    ///
    /// # Errors
    ///
    /// Fails if `entries` is empty, or its length is not a multiple of `rank`.
    pub fn new(entries: &'a [f32], rank: NonZeroUsize, side: Side) -> Result<Self, CallError> {
        let basis = Self { entries, rank, side };
        check_len("the basis", basis.len().get().saturating_mul(rank.get()), entries.len())?;
        Ok(basis)
    }

    /// Returns the length of a direction, `k`.
    fn len(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.entries.len() / self.rank).unwrap_or(NonZeroUsize::MIN)
    }

    /// Checks that `matrix` has whole rows (columns) of `k`, and `image` as many of `r`. Returns their number, or 1 if
    /// none.
    fn check(&self, matrix: usize, image: usize) -> Result<usize, CallError> {
        let others = matrix / self.len();
        check_len("the matrix", others.saturating_mul(self.len().get()), matrix)?;
        check_len("the coordinates", others.saturating_mul(self.rank.get()), image)?;
        Ok(others.max(1))
    }

    /// Writes the coordinates of `matrix` (`[k, n]` on the left, `[m, k]` on the right) to `image` (`[r, n]`,
    /// `[m, r]`).
    ///
    /// # Errors
    ///
    /// Fails if the lengths do not match. Nothing is written.
    pub fn project(&self, matrix: &[f32], image: &mut [f32]) -> Result<(), CallError> {
        let others = self.check(matrix.len(), image.len())?;
        image.fill(0.0);
        match self.side {
            Side::Left => {
                for (weights, row) in self.entries.chunks(self.rank.get()).zip(matrix.chunks(others)) {
                    for (weight, image) in weights.iter().zip(image.chunks_mut(others)) {
                        add_scaled(image, *weight, row);
                    }
                }
            }
            Side::Right => {
                for (row, image) in matrix.chunks(self.len().get()).zip(image.chunks_mut(self.rank.get())) {
                    for (x, directions) in row.iter().zip(self.entries.chunks(self.rank.get())) {
                        add_scaled(image, *x, directions);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the matrix with the coordinates `image` to `matrix`. The shapes are those of [`Basis::project`].
    ///
    /// # Errors
    ///
    /// Fails if the lengths do not match. Nothing is written.
    pub fn lift(&self, image: &[f32], matrix: &mut [f32]) -> Result<(), CallError> {
        let others = self.check(matrix.len(), image.len())?;
        matrix.fill(0.0);
        match self.side {
            Side::Left => {
                for (weights, row) in self.entries.chunks(self.rank.get()).zip(matrix.chunks_mut(others)) {
                    for (weight, image) in weights.iter().zip(image.chunks(others)) {
                        add_scaled(row, *weight, image);
                    }
                }
            }
            Side::Right => {
                for (row, image) in matrix.chunks_mut(self.len().get()).zip(image.chunks(self.rank.get())) {
                    for (x, directions) in row.iter_mut().zip(self.entries.chunks(self.rank.get())) {
                        for (direction, image) in directions.iter().zip(image) {
                            *x = saturate(*x + saturate(direction * image));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Computes `to ← S(to + S(scale·from))` for each element.
fn add_scaled(to: &mut [f32], scale: f32, from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = saturate(*to + saturate(scale * from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// Returns `R` and `D` of `G [m,n]` and `P`, in f64.
    fn reference(side: Side, m: usize, n: usize, rank: usize, p: &[f32], g: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let (p, g): (Vec<f64>, Vec<f64>) =
            (p.iter().map(|x| f64::from(*x)).collect(), g.iter().map(|x| f64::from(*x)).collect());
        let (mut image, mut back) = (vec![0.0; if side == Side::Left { rank * n } else { m * rank }], vec![0.0; m * n]);
        for i in 0..m {
            for c in 0..n {
                for j in 0..rank {
                    match side {
                        Side::Left => image[j * n + c] += p[i * rank + j] * g[i * n + c],
                        Side::Right => image[i * rank + j] += p[c * rank + j] * g[i * n + c],
                    }
                }
            }
        }
        for i in 0..m {
            for c in 0..n {
                for j in 0..rank {
                    back[i * n + c] += match side {
                        Side::Left => p[i * rank + j] * image[j * n + c],
                        Side::Right => p[c * rank + j] * image[i * rank + j],
                    };
                }
            }
        }
        (image, back)
    }

    fn basis(entries: &[f32], rank: usize, side: Side) -> Result<Basis<'_>, CallError> {
        Basis::new(entries, NonZeroUsize::new(rank).unwrap(), side)
    }

    proptest! {
        // `project` and `lift` equal the textbook matrix products.
        #[test]
        fn projection_and_lift_match_reference(
            m in 1usize..7, n in 1usize..7, rank in 1usize..4, left: bool,
            numbers in prop::collection::vec(-2f32..2.0, 100),
        ) {
            let side = if left { Side::Left } else { Side::Right };
            let (p, g) = numbers.split_at(rank * if left { m } else { n });
            let g = &g[..m * n];
            let basis = basis(p, rank, side).unwrap();
            let (expected, expected_back) = reference(side, m, n, rank, p, g);
            let (mut image, mut back) = (vec![f32::NAN; expected.len()], vec![f32::NAN; m * n]);
            basis.project(g, &mut image).unwrap();
            basis.lift(&image, &mut back).unwrap();
            for (got, expected) in image.iter().zip(&expected).chain(back.iter().zip(&expected_back)) {
                prop_assert!((f64::from(*got) - expected).abs() < 1e-4, "{} {}", got, expected);
            }
        }

        #[test]
        fn finite_numbers_give_finite_numbers(
            numbers in prop::collection::vec(prop::sample::select(vec![f32::MAX, -f32::MAX, 1e30, -3.0, 0.0]), 12), left: bool,
        ) {
            let (p, g) = numbers.split_at(6);
            let basis = basis(p, 2, if left { Side::Left } else { Side::Right }).unwrap();
            let (mut image, mut back) = ([0f32; 4], [0f32; 6]);
            basis.project(g, &mut image).unwrap();
            basis.lift(&image, &mut back).unwrap();
            prop_assert!(image.iter().chain(&back).all(|x| x.is_finite()));
        }
    }

    // A wrong length is an error, and nothing is written.
    #[test]
    fn wrong_length_is_error_without_write() {
        for (entries, rank) in [(0, 1), (1, 2), (3, 2)] {
            assert!(basis(&[1.0; 4][..entries], rank, Side::Left).is_err());
        }
        for side in [Side::Left, Side::Right] {
            let basis = basis(&[1.0; 6], 2, side).unwrap();
            let (mut image, mut matrix) = ([7f32; 5], [7f32; 7]);
            assert!(basis.project(&[1.0; 7], &mut image[..4]).is_err());
            assert!(basis.project(&[1.0; 6], &mut image).is_err());
            assert!(basis.lift(&[1.0; 4], &mut matrix).is_err());
            assert!(basis.lift(&[1.0; 5], &mut matrix[..6]).is_err());
            assert_eq!((image, matrix), ([7.0; 5], [7.0; 7]));
            assert!(basis.project(&[], &mut []).is_ok() && basis.lift(&[], &mut []).is_ok());
        }
    }
}
