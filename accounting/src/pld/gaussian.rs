//! One Gaussian release and its shift by the sensitivity, `N₀ = N(0, σ²)` and `N₁ = N(1, σ²)`, as finitely many points.
//!
//! Coordinates are `c = x/σ − 1/2σ`. In these the likelihood ratio is `r = N₁/N₀ = e^{c/σ}`, and the two densities are
//! those of unit normals at `∓1/2σ`. Every pair of a draw at rate q, `(1−q)N₀ + qN₁` and `N₀` in either order, is
//! linear in (N₀, N₁). So a bound for these two holds for all.
//!
//! - [`Nodes`] is **pessimistic**: the mass between two neighbouring nodes is split onto them, so that the masses under
//!   N₀ and under N₁ are both preserved. Merging, a post-processing, reverses a split, so no hockey-stick divergence
//!   falls. In terms of the divergence as a function of γ, these are chords ("connect the dots", Doroshenko, Ghazi,
//!   Kamath, Kumar, Manurangsi, PoPETs 2022). On this uniform grid of `c`, the node's mass has a closed integral.
//! - [`Cells`] is **optimistic**: each interval between two nodes is merged into one point.
//!
//! # Numerics
//!
//! With spacing g, a node's N₀-mass is `φ(z) ∫₀^g 2 cosh(cu) w(u) du`, `w(u) = e^{−u²/2} sinh((g−u)/2σ) / sinh(g/2σ)`.
//! A cell's mass is `φ(z) ∫₀^{g/2} 2 cosh(zu) e^{−u²/2} du` about its middle z. Both are series in `c²` (or `z²`) of
//! positive terms. A Gauss-Legendre rule with sixteen points on an interval below 1/16 gives their moments, with a
//! relative error below 1e-30. Each logarithm has an error of less than [`slack`], which is added to an upper bound and
//! subtracted from a lower bound.

use libm::{erfc, exp, lgamma, log, sinh, sqrt};

/// The smallest multiplier that is discretised. Below it, ε of one unsampled release is above 2,000, and no bound is
/// computed.
pub(super) const SMALLEST: f64 = 1.0 / 64.0;
/// The number of terms of a series in c².
const TERMS: usize = 16;
const LN_SQRT_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// A point: the logarithm of its mass under N₀, and `ln r`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// `ln N₀{point}`.
    pub ln_mass: f64,
    /// `ln (N₁{point} / N₀{point})`.
    pub ln_ratio: f64,
    /// The largest error of either.
    pub slack: f64,
}

/// A split of the pair onto nodes, and the mass outside of them.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// In ascending order of `ln_ratio`.
    pub points: Vec<Point>,
    /// The mass of N₀ below the first node, and of N₁ above the last. Rounded up.
    pub near: f64,
    /// The mass of N₁ below the first node, and of N₀ above the last. Rounded up.
    pub far: f64,
}

/// Intervals of the pair, each merged into a point, in ascending order of `ln_ratio`. Mass outside of them is dropped.
pub(super) type Cells = Vec<Point>;

/// The number of nodes on each side of the middle, such that N₀ has at most `e^{−reach²/2}` below the first node.
pub(super) fn side(sigma: f64, spacing: f64, reach: f64) -> i64 {
    ((reach + 0.5 / sigma) / spacing).ceil() as i64
}

/// Discretises the pair on nodes `spacing` apart in units of σ. `spacing` is a power of two.
pub(super) fn nodes(sigma: f64, spacing: f64, reach: f64) -> Nodes {
    let series = Series::new(spacing, |u| exp(-u * u / 2.0) * sinh_ratio(spacing - u, spacing, sigma));
    let side = side(sigma, spacing, reach);
    let points = (-side..=side).map(|j| {
        let c = j as f64 * spacing;
        let z = c + 0.5 / sigma;
        Point { ln_mass: ln_normal(z) + series.ln(c), ln_ratio: c / sigma, slack: slack(c, sigma) }
    });
    let edge = side as f64 * spacing - 0.5 / sigma;
    Nodes { points: points.collect(), near: tail(edge), far: tail(edge + 1.0 / sigma) }
}

/// Discretises the pair in cells of width `spacing`.
pub(super) fn cells(sigma: f64, spacing: f64, reach: f64) -> Cells {
    let series = Series::new(spacing / 2.0, |u| exp(-u * u / 2.0));
    let side = side(sigma, spacing, reach);
    let cell = |j: i64| {
        let c = (j as f64 + 0.5) * spacing;
        let (z, shifted) = (c + 0.5 / sigma, c - 0.5 / sigma);
        let ln_ratio = c / sigma + (series.ln(shifted) - series.ln(z));
        Point { ln_mass: ln_normal(z) + series.ln(z), ln_ratio, slack: slack(c, sigma) }
    };
    (-side..side).map(cell).collect()
}

/// `sinh(a/2σ) / sinh(b/2σ)` for 0 ≤ a ≤ b.
fn sinh_ratio(a: f64, b: f64, sigma: f64) -> f64 {
    sinh(a / (2.0 * sigma)) / sinh(b / (2.0 * sigma))
}

/// `ln φ(z)`.
pub(super) fn ln_normal(z: f64) -> f64 {
    -z * z / 2.0 - LN_SQRT_TWO_PI
}

/// A bound on the error of a point's logarithms: some units in the last place of their terms.
fn slack(c: f64, sigma: f64) -> f64 {
    let z = c.abs() + 0.5 / sigma;
    16.0 * f64::EPSILON * (z * z + c.abs() / sigma + 8.0)
}

/// The mass of a unit normal above z, rounded up.
pub(super) fn tail(z: f64) -> f64 {
    0.5 * erfc(z / sqrt(2.0)) * (1.0 + 1e-12) + 1e-300
}

/// `∫₀^b 2 cosh(cu) w(u) du` as a series in c².
struct Series {
    terms: [f64; TERMS],
}

impl Series {
    fn new(end: f64, weight: impl Fn(f64) -> f64) -> Self {
        let rule = legendre();
        let mut terms = [0.0; TERMS];
        for (m, term) in terms.iter_mut().enumerate() {
            let power = |u: f64| libm::pow(u, 2.0 * m as f64);
            let moment: f64 = rule
                .iter()
                .map(|(x, w)| {
                    let u = end * (1.0 + x) / 2.0;
                    w * end / 2.0 * weight(u) * power(u)
                })
                .sum();
            *term = 2.0 * moment * exp(-lgamma(2.0 * m as f64 + 1.0));
        }
        Self { terms }
    }

    fn ln(&self, c: f64) -> f64 {
        log(self.terms.iter().rev().fold(0.0, |sum, term| sum * c * c + term))
    }
}

/// Points and weights of the Gauss-Legendre rule on [−1, 1] with sixteen points.
pub(super) fn legendre() -> [(f64, f64); 16] {
    const N: usize = 16;
    std::array::from_fn(|i| {
        let mut x = libm::cos(std::f64::consts::PI * (i as f64 + 0.75) / (N as f64 + 0.5));
        let mut slope = 0.0;
        for _ in 0..8 {
            let (mut p, mut before) = (x, 1.0);
            for k in 2..=N {
                let k = k as f64;
                (p, before) = (((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k, p);
            }
            slope = N as f64 * (x * p - before) / (x * x - 1.0);
            x -= p / slope;
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mass of a unit normal between two bounds.
    fn between(low: f64, high: f64) -> f64 {
        if low > 0.0 { tail(low) - tail(high) } else { tail(-high) - tail(-low) }
    }

    fn near(found: f64, exact: f64, share: f64) {
        assert!((found - exact).abs() <= share * exact.abs(), "{found:e}, not {exact:e}");
    }

    #[test]
    fn legendre_integrates_polynomials() {
        for power in 0..=31 {
            let sum: f64 = legendre().iter().map(|(x, w)| w * x.powi(power)).sum();
            let exact = if power % 2 == 0 { 2.0 / f64::from(power + 1) } else { 0.0 };
            assert!((sum - exact).abs() < 1e-14, "{power}: {sum}, not {exact}");
        }
    }

    #[test]
    fn normal_and_its_tail_have_known_values() {
        near(ln_normal(0.0), -0.918_938_533_204_672_7, 1e-15);
        near(ln_normal(-2.0), -2.918_938_533_204_672_7, 1e-15);
        for (z, exact) in [(0.0, 0.5), (1.0, 0.158_655_253_931_457_05), (-1.0, 0.841_344_746_068_542_9)] {
            assert!(tail(z) >= exact);
            near(tail(z), exact, 2e-12);
        }
        assert!(tail(60.0) > 0.0 && tail(60.0) < 1e-290);
    }

    #[test]
    fn side_reaches_as_far_as_asked() {
        assert_eq!((side(1.0, 0.25, 6.0), side(2.0, 0.5, 3.0), side(0.5, 0.125, 1.0)), (26, 7, 16));
    }

    #[test]
    fn cells_have_the_masses_of_intervals() {
        for (sigma, spacing) in [(0.5, 1.0 / 32.0), (1.0, 1.0 / 32.0), (20.0, 1.0 / 128.0)] {
            let cells = cells(sigma, spacing, 6.0);
            assert_eq!(cells.len() as i64, 2 * side(sigma, spacing, 6.0));
            let first = -side(sigma, spacing, 6.0) as f64 * spacing;
            for (at, cell) in cells.iter().enumerate().step_by(7) {
                let (low, high) = (first + at as f64 * spacing, first + (at + 1) as f64 * spacing);
                let (one, other) =
                    (between(low + 0.5 / sigma, high + 0.5 / sigma), between(low - 0.5 / sigma, high - 0.5 / sigma));
                near(exp(cell.ln_mass), one, 1e-9);
                near(exp(cell.ln_mass + cell.ln_ratio), other, 1e-9);
            }
        }
    }

    /// Simpson's rule for the shares of the mass on both sides that preserve N₀ and N₁.
    #[test]
    fn nodes_keep_both_masses() {
        for (sigma, spacing) in [(0.5, 1.0 / 32.0), (1.0, 1.0 / 16.0), (20.0, 1.0 / 128.0)] {
            let nodes = nodes(sigma, spacing, 6.0);
            let side = side(sigma, spacing, 6.0);
            for (at, node) in nodes.points.iter().enumerate().step_by(11) {
                let c = (at as i64 - side) as f64 * spacing;
                near(node.ln_ratio + 1.0, c / sigma + 1.0, 1e-14);
                let density = |u: f64| exp(ln_normal(c + 0.5 / sigma + u));
                let kept = |u: f64| {
                    // The share of a point at c + u follows from its ratio N₁/N₀ and those of the two neighbouring
                    // nodes.
                    if u >= 0.0 {
                        density(u) * ((spacing / sigma).exp() - (u / sigma).exp()) / (spacing / sigma).exp_m1()
                    } else {
                        density(u) * ((u / sigma).exp() - (-spacing / sigma).exp()) / -(-spacing / sigma).exp_m1()
                    }
                };
                let steps = 64;
                let width = spacing / f64::from(steps);
                let simpson = |from: f64| -> f64 {
                    let weight = |k: i32| {
                        if k == 0 || k == steps {
                            1.0
                        } else if k % 2 == 1 {
                            4.0
                        } else {
                            2.0
                        }
                    };
                    (0..=steps).map(|k| weight(k) * kept(from + f64::from(k) * width)).sum::<f64>() * width / 3.0
                };
                near(exp(node.ln_mass), simpson(-spacing) + simpson(0.0), 1e-7);
            }
            let all: f64 = nodes.points.iter().map(|node| exp(node.ln_mass)).sum();
            let other: f64 = nodes.points.iter().map(|node| exp(node.ln_mass + node.ln_ratio)).sum();
            let outside = nodes.near + nodes.far;
            assert!(
                (all + outside - 1.0).abs() < 1e-8 && (other + outside - 1.0).abs() < 1e-8,
                "{all} {other} {outside:e}"
            );
            let edge = side as f64 * spacing;
            near(nodes.near, tail(edge - 0.5 / sigma), 1e-11);
            near(nodes.far, tail(edge + 0.5 / sigma), 1e-11);
        }
    }
}
