//! The accounted distributions: probabilities of bins, and both tests of draws.

use crate::tail;

/// The least expected number of draws in a bin.
const LEAST: f64 = 10.0;

/// Cumulative probabilities of the discrete Gaussian of a σ in grid units (a control's σ need not be an integer).
pub struct Discrete {
    sigma: f64,
    /// `P(Z ≤ z)` for `z = −reach ..= reach`. Empty if σ is so large that [`Discrete::up_to`] has a closed form.
    table: Vec<f64>,
    reach: i32,
}

/// From this σ on, `P(Z ≤ z)` is the normal's at `z + 1/2` to a relative 1/σ² in each bin. This is a hundredth of the
/// resolution of ten million draws.
const LARGE: f64 = 2048.0;

impl Discrete {
    pub fn new(sigma: f64) -> Self {
        let reach = (10.0 * sigma).ceil() as i32 + 8;
        let mut table = vec![];
        if sigma < LARGE {
            let density = |z: i32| (-f64::from(z).powi(2) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-reach..=reach).map(density).sum();
            let mut sum = 0.0;
            table = (-reach..=reach)
                .map(|z| {
                    sum += density(z) / total;
                    sum
                })
                .collect();
        }
        Self { sigma, table, reach }
    }

    /// `P(Z ≤ z)`.
    fn up_to(&self, z: i32) -> f64 {
        if self.table.is_empty() {
            return tail::normal((f64::from(z) + 0.5) / self.sigma);
        }
        let index = (i64::from(z) + i64::from(self.reach)).clamp(-1, 2 * i64::from(self.reach));
        usize::try_from(index).map_or(0.0, |index| self.table[index])
    }

    /// The Kolmogorov-Smirnov test of sorted draws.
    pub fn kolmogorov(&self, sorted: &[i32]) -> f64 {
        tail::kolmogorov(sorted, |z| self.up_to(z - 1), |z| self.up_to(z))
    }

    /// The chi-square test of sorted draws: value by value if σ is small, otherwise in 64 bins per σ.
    pub fn chi_square(&self, sorted: &[i32]) -> f64 {
        let width = (self.sigma / 64.0).floor().max(1.0) as i32;
        let reach = self.reach / width * width;
        let ends = (-reach..=reach).step_by(width as usize);
        chi_square(ends.map(|end| (self.up_to(end), sorted.partition_point(|z| *z <= end))), sorted.len())
    }
}

/// Chi-square of `draws` draws in bins, given by their ends: the cumulative probability and the cumulative number of
/// draws. Neighbouring bins that expect fewer than [`LEAST`] draws are merged. The outermost bins are the tails.
fn chi_square(ends: impl Iterator<Item = (f64, usize)>, draws: usize) -> f64 {
    let n = draws as f64;
    let (mut counts, mut probabilities) = (vec![], vec![]);
    let (mut below, mut start) = (0.0, 0);
    // The rest above the last end is a bin that expects enough.
    for (up_to, next) in ends {
        if n * (up_to - below) >= LEAST && n * (1.0 - up_to) >= LEAST {
            counts.push((next - start) as u64);
            probabilities.push(up_to - below);
            (below, start) = (up_to, next);
        }
    }
    counts.push((draws - start) as u64);
    probabilities.push(1.0 - below);
    tail::chi_square(&counts, &probabilities)
}

/// The normal distribution of a σ.
pub struct Normal(pub f64);

impl Normal {
    /// The Kolmogorov-Smirnov test of sorted draws.
    pub fn kolmogorov(&self, sorted: &[f32]) -> f64 {
        let up_to = |x: f32| tail::normal(f64::from(x) / self.0);
        tail::kolmogorov(sorted, up_to, up_to)
    }

    /// The chi-square test of sorted draws, in 64 bins per σ.
    pub fn chi_square(&self, sorted: &[f32]) -> f64 {
        let ends = (-640..=640).map(|end| f64::from(end) / 64.0);
        let up_to = |end: f64| (tail::normal(end), sorted.partition_point(|x| f64::from(*x) / self.0 <= end));
        chi_square(ends.map(up_to), sorted.len())
    }
}
