//! One Gaussian release and its shift by the sensitivity, `N₀ = N(0, σ²)` and `N₁ = N(1, σ²)`, as finitely many points.
//!
//! Coordinates are `c = x/σ − 1/2σ`, in which the likelihood ratio is `r = N₁/N₀ = e^{c/σ}` and the two densities are those
//! of unit normals at `∓1/2σ`. Every pair that a draw at rate q gives, `(1−q)N₀ + qN₁` and `N₀` in either order, is linear in
//! (N₀, N₁): what holds for these two holds for all.
//!
//! - [`Nodes`] is **worse** than the pair: the mass between two neighbouring nodes is split onto them so that the masses under
//!   N₀ and under N₁ are both kept. A split is undone by merging, a post-processing, so no hockey-stick divergence falls.
//!   In terms of the divergence as a function of γ these are chords ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar,
//!   Manurangsi, PoPETs 2022); on this uniform grid of `c` the node's mass has a closed integral.
//! - [`Cells`] is **better** than the pair: each interval between two nodes is merged into one point.
//!
//! # Numerics
//!
//! With spacing g, a node's N₀-mass is `φ(z) ∫₀^g 2 cosh(cu) w(u) du`, `w(u) = e^{−u²/2} sinh((g−u)/2σ) / sinh(g/2σ)`, and a
//! cell's is `φ(z) ∫₀^{g/2} 2 cosh(zu) e^{−u²/2} du` about its middle z: a series in `c²` (or `z²`) of positive terms, whose
//! moments are taken by a Gauss-Legendre rule with sixteen points on an interval below 1/16 (its error is below 1e-30 of the
//! value). Each logarithm is off by less than [`slack`], which is added to an upper bound, and taken from a lower one.

use libm::{erfc, exp, lgamma, log, sinh, sqrt};

/// The smallest multiplier that is discretised; below it (ε of one unsampled release is above 2,000) nothing is computed.
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
    /// What either may be off by.
    pub slack: f64,
}

/// A split of the pair onto nodes, and what lies outside of them.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// In ascending order of `ln_ratio`.
    pub points: Vec<Point>,
    /// The mass of N₀ below the first node; N₁ has it above the last one. Rounded up.
    pub near: f64,
    /// The mass of N₁ below the first node; N₀ has it above the last one. Rounded up.
    pub far: f64,
}

/// Intervals of the pair, each merged into a point, in ascending order of `ln_ratio`; what lies outside is dropped.
pub(super) type Cells = Vec<Point>;

/// How many nodes there are on each side of the middle, so that N₀ has at most `e^{−reach²/2}` below the first.
pub(super) fn side(sigma: f64, spacing: f64, reach: f64) -> i64 {
    ((reach + 0.5 / sigma) / spacing).ceil() as i64
}

/// The pair on nodes `spacing` apart in units of σ; `spacing` is a power of two.
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

/// The pair in cells of this width.
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

/// A bound on the error of a point's logarithms: some units in the last place of the terms they are sums of.
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
