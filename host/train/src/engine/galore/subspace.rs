//! The leading singular subspace of a matrix.
//!
//! Block power iteration with Rayleigh–Ritz. With `A = G·Gᵀ` (left) or `Gᵀ·G` (right),
//!
//! ```text
//! Y = A·Q      V Λ Vᵀ = QᵀY (Jacobi, falling eigenvalues)      Q ← orthonormalised Y·V
//! ```
//!
//! until the energy in the first `r` columns of `Q·V`, the sum of their eigenvalues, stops growing. The block has `2r +
//! 8` columns. Each iteration reduces the error by the squared ratio of the singular values `2r + 9` and `r`. If
//! singular values are equal, as in pure noise, any of their subspaces is equally good, and the iteration maximises the
//! energy.
//!
//! Source: Golub and Van Loan, *Matrix Computations*, §8.2 (orthogonal and Ritz iteration), §8.5 (Jacobi).
//!
//! # Memory
//!
//! The matrix and `2·(2r + 8)·k` values, in f64. `A` is never formed.
//!
//! # Numerics
//!
//! All in f64, from a fixed start, with every sum in a fixed order. The square root is the only function used, so one
//! matrix gives one result. Finite f32 values cannot overflow it. Vanishing directions (a gradient of low rank, or
//! zero) are replaced by unit vectors, so the result is always orthonormal.

use damper_core::numerics::basis::Side;

const ITERATIONS: usize = 200;
/// The iteration ends if the relative growth of the energy is below this.
const TOLERANCE: f64 = 1e-8;
/// A direction has vanished if less than this is left after projecting out the others.
const VANISHED: f64 = 1e-6;
const SWEEPS: usize = 40;

/// Returns the `rank ≤ k` leading singular directions of `matrix` (`[m, n]` with `columns = n`) on that side, as `[k,
/// rank]`, the strongest first.
pub(super) fn leading(matrix: &[f32], columns: usize, side: Side, rank: usize) -> Vec<f32> {
    let matrix =
        Matrix { rows: matrix.chunks(columns).map(|row| row.iter().copied().map(f64::from).collect()).collect() };
    let length = match side {
        Side::Left => matrix.rows.len(),
        Side::Right => columns,
    };
    let mut block = start(length, (2 * rank + 8).min(length));
    orthonormalise(&mut block);
    let mut energy = 0.0;
    for _ in 0..ITERATIONS {
        let images: Vec<Vec<f64>> = block.iter().map(|direction| matrix.gram(side, direction)).collect();
        let (values, vectors) = eigen(block.iter().map(|a| images.iter().map(|b| dot(a, b)).collect()).collect());
        block = combine(&block, &vectors);
        let found = values.iter().take(rank).fold(0.0, |sum, value| sum + value);
        // Also false if the energy is not a number. If the block spans the whole space, Jacobi's result is exact.
        let grows = found > energy * (1.0 + TOLERANCE);
        if !grows || block.len() == length {
            break;
        }
        energy = found;
        block = combine(&images, &vectors);
        orthonormalise(&mut block);
    }
    (0..length).flat_map(|row| block.iter().take(rank).map(move |direction| direction[row] as f32)).collect()
}

struct Matrix {
    rows: Vec<Vec<f64>>,
}

impl Matrix {
    /// `G·Gᵀ·x` (left) or `Gᵀ·G·x` (right).
    fn gram(&self, side: Side, x: &[f64]) -> Vec<f64> {
        match side {
            Side::Left => self.times(&self.transposed_times(x)),
            Side::Right => self.transposed_times(&self.times(x)),
        }
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| dot(row, x)).collect()
    }

    fn transposed_times(&self, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows.first().map_or(0, Vec::len)];
        for (row, x) in self.rows.iter().zip(x) {
            add_scaled(&mut out, *x, row);
        }
        out
    }
}

/// Returns a dot product, summed in eight interleaved lanes that are folded in order.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}

fn add_scaled(to: &mut [f64], scale: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += scale * from;
    }
}

/// Returns `count` fixed vectors of `length` values in [-1, 1), by SplitMix64. A gradient is unlikely to be orthogonal
/// to them.
fn start(length: usize, count: usize) -> Vec<Vec<f64>> {
    let mut state = 0u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| (0..length).map(|_| next()).collect()).collect()
}

/// Gram–Schmidt, twice for each vector. A vanished vector is replaced by the first unit vector that does not vanish.
fn orthonormalise(vectors: &mut [Vec<f64>]) {
    let mut unit = 0;
    for index in 0..vectors.len() {
        let (done, rest) = vectors.split_at_mut(index);
        let Some(vector) = rest.first_mut() else { return };
        loop {
            let before = dot(vector, vector).sqrt();
            for _ in 0..2 {
                for other in &*done {
                    let along = dot(other, vector);
                    add_scaled(vector, -along, other);
                }
            }
            let after = dot(vector, vector).sqrt();
            if after > VANISHED * before {
                vector.iter_mut().for_each(|x| *x /= after);
                break;
            }
            // Fewer vectors than dimensions are done. So some unit vector has a component of 1/√k or more orthogonal to
            // them. The skipped unit vectors have no such component.
            vector.fill(0.0);
            let Some(x) = vector.get_mut(unit) else { break };
            *x = 1.0;
            unit += 1;
        }
    }
}

/// `Σ_i weights[j][i]·vectors[i]` for each `j`.
fn combine(vectors: &[Vec<f64>], weights: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let one = |weights: &Vec<f64>| {
        let mut out = vec![0.0; vectors.first().map_or(0, Vec::len)];
        for (vector, weight) in vectors.iter().zip(weights) {
            add_scaled(&mut out, *weight, vector);
        }
        out
    };
    weights.iter().map(one).collect()
}

/// Returns the eigenvalues of a symmetric matrix, descending, and their eigenvectors, by cyclic Jacobi.
fn eigen(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = a.len();
    let mut vectors: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..SWEEPS {
        let mut transposed = false;
        for p in 0..n {
            for q in p + 1..n {
                let apq = a[p][q];
                let matters = apq.abs() > f64::EPSILON * (a[p][p].abs() * a[q][q].abs()).sqrt();
                if !matters {
                    continue;
                }
                transposed = true;
                let theta = (a[q][q] - a[p][p]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                let (above, below) = a.split_at_mut(q);
                turn(&mut above[p], &mut below[0], c, s);
                let (above, below) = vectors.split_at_mut(q);
                turn(&mut above[p], &mut below[0], c, s);
            }
        }
        if !transposed {
            break;
        }
    }
    let mut pairs: Vec<(f64, Vec<f64>)> =
        vectors.into_iter().enumerate().map(|(i, vector)| (a[i][i], vector)).collect();
    pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    pairs.into_iter().unzip()
}

fn turn(p: &mut [f64], q: &mut [f64], c: f64, s: f64) {
    for (p, q) in p.iter_mut().zip(q) {
        (*p, *q) = (c * *p - s * *q, s * *p + c * *q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIDES: [Side; 2] = [Side::Left, Side::Right];

    fn gram(matrix: &[f32], n: usize, side: Side) -> Vec<Vec<f64>> {
        let m = matrix.len() / n;
        let at = |i: usize, j: usize| f64::from(matrix[i * n + j]);
        let (k, others) = if side == Side::Left { (m, n) } else { (n, m) };
        let x = |i, c| if side == Side::Left { at(i, c) } else { at(c, i) };
        (0..k).map(|i| (0..k).map(|j| (0..others).fold(0.0, |sum, c| sum + x(i, c) * x(j, c))).collect()).collect()
    }

    /// `Σ_j p_jᵀ·A·p_j`.
    fn energy(a: &[Vec<f64>], p: &[f32], rank: usize) -> f64 {
        let p = |i: usize, j: usize| f64::from(p[i * rank + j]);
        let k = a.len();
        let mut sum = 0.0;
        for j in 0..rank {
            for (i, row) in a.iter().enumerate() {
                for (l, a) in row.iter().enumerate().take(k) {
                    sum += p(i, j) * a * p(l, j);
                }
            }
        }
        sum
    }

    fn assert_orthonormal(p: &[f32], rank: usize) {
        for i in 0..rank {
            for j in 0..rank {
                let dot = p.chunks(rank).fold(0.0, |sum, row| sum + f64::from(row[i]) * f64::from(row[j]));
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-6, "{i} {j}: {dot}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        // Eigenvectors are orthonormal, satisfy their equation and are in descending order.
        #[test]
        fn eigenvectors_are_orthonormal_and_ordered(
            n in 1usize..9, numbers in prop::collection::vec(-10f64..10.0, 64), cut in 0usize..9,
        ) {
            // The matrix is symmetric. It is singular if its last rows and columns are zero.
            let live = |i: usize, j: usize| if i.max(j) < n.saturating_sub(cut) { numbers[i.min(j) * 8 + i.max(j)] } else { 0.0 };
            let a: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| live(i, j)).collect()).collect();
            let (values, vectors) = eigen(a.clone());
            prop_assert!(values.windows(2).all(|pair| pair[0] >= pair[1]));
            for (value, vector) in values.iter().zip(&vectors) {
                for (row, x) in a.iter().zip(vector) {
                    prop_assert!((dot(row, vector) - value * x).abs() < 1e-11);
                }
            }
            for (i, p) in vectors.iter().enumerate() {
                for (j, q) in vectors.iter().enumerate() {
                    prop_assert!((dot(p, q) - f64::from(u8::from(i == j))).abs() < 1e-12);
                }
            }
        }

        /// Compares with Jacobi on the whole Gram matrix, through the energy of the directions. Only the leading
        /// subspace has that energy. It also defines the subspace if eigenvalues are equal.
        #[test]
        fn subspace_has_leading_energy(
            m in 1usize..40, n in 1usize..40, rank in 1usize..6, numbers in prop::collection::vec(-1f32..1.0, 1600),
        ) {
            let matrix = &numbers[..m * n];
            for side in SIDES {
                let a = gram(matrix, n, side);
                let rank = rank.min(a.len());
                let p = leading(matrix, n, side, rank);
                prop_assert_eq!(p.len(), a.len() * rank);
                assert_orthonormal(&p, rank);
                let best = eigen(a.clone()).0.iter().take(rank).fold(0.0, |sum, value| sum + value);
                let found = energy(&a, &p, rank);
                prop_assert!((found / best - 1.0).abs() < 1e-6, "{} of {}", found, best);
            }
        }

        // A matrix of low rank lies in its subspace, which stays orthonormal.
        #[test]
        fn low_rank_matrix_lies_in_its_subspace(
            m in 2usize..20, n in 2usize..20, u in prop::collection::vec(0.1f32..1.0, 20),
            v in prop::collection::vec(0.1f32..1.0, 20), scale in prop::sample::select(vec![1e-40f32, 1e-18, 1.0, 1e18, 3e38]),
        ) {
            let matrix: Vec<f32> = (0..m * n).map(|i| u[i / n] * v[i % n] * scale).collect();
            for side in SIDES {
                for rank in 1..=2 {
                    let p = leading(&matrix, n, side, rank);
                    assert_orthonormal(&p, rank);
                    let a = gram(&matrix, n, side);
                    let whole = a.iter().enumerate().fold(0.0, |sum, (i, row)| sum + row[i]);
                    // A subnormal matrix has low rank only up to its coarse rounding.
                    let tolerance = if scale < 1e-30 { 1e-3 } else { 1e-6 };
                    prop_assert!((energy(&a, &p, rank) / whole - 1.0).abs() < tolerance);
                }
            }
        }
    }

    #[test]
    fn zero_gradient_has_orthonormal_subspace() {
        for side in SIDES {
            for rank in 1..=5 {
                let p = leading(&[0.0; 35], 7, side, rank);
                assert_orthonormal(&p, rank);
            }
        }
    }

    // A non-finite matrix ends the iteration, with the full number of entries.
    #[test]
    fn non_finite_matrix_gives_full_length() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut matrix = [1.0f32; 12];
            matrix[5] = bad;
            for side in SIDES {
                let p = leading(&matrix, 4, side, 2);
                assert_eq!(p.len(), 2 * if side == Side::Left { 3 } else { 4 });
            }
        }
    }

    #[test]
    fn the_strongest_direction_comes_first() {
        let p = leading(&[1.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0], 3, Side::Left, 3);
        let close = |x: f32, y: f32| (x.abs() - y).abs() < 1e-6;
        let expected = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        assert!(p.iter().zip(expected).all(|(p, expected)| close(*p, expected)), "{p:?}");
    }
}
