//! The dominating pair of a Poisson-sampled Gaussian release for a group of k samples, which are all present or all
//! absent, and its discretisation.
//!
//! # The pair
//!
//! Each sample of the group has an independent Bernoulli trial. The drawn samples S move the release by a vector `g_S`
//! of length at most `|S|·a`, with `a = 1/σ` in units of σ. Given the trials of all other samples, the two
//! distributions are, up to a common translation,
//!
//! ```text
//! P = Σ_S p_S N(g_S, I),   Q = N(0, I),   and the claim is that   Σ_j Bin(k, q)(j) N(ja, 1)  and  N(0, 1)
//! ```
//!
//! dominate them in both directions (A. Ganesh, "Tight group-level DP guarantees for DP-SGD with sampling via mixture
//! of Gaussians mechanisms", 2024). Equal gradients in one direction reach the pair, so it is tight.
//!
//! # Proof
//!
//! Divide by the density of Q. `H_γ(P‖Q) = E[(Σ p_S M_S − γ)₊]` and `H_γ(Q‖P) = E[(1 − γΣ p_S M_S)₊]` with
//! `M_S = e^{⟨g_S,Z⟩ − ‖g_S‖²/2}`. Both are `F(Σ) = E[h(Σ p_S M_S)]` with a convex h, and depend on the Gram matrix
//! `Σ_ST = ⟨g_S, g_T⟩` alone. The heat equation gives `∂F/∂Σ_ST = E[p_S M_S · p_T M_T · h''] ≥ 0` (halved on the
//! diagonal), as in [`replace`](super::replace).
//!
//! So F grows along the segment to the Gram matrix of collinear vectors of the lengths `|S|·a`, which is at least as
//! large in every entry. Sets of one size are then one component. ∎
//!
//! The lengths may also grow, by the same argument. So the pair's divergences grow with a and, by coupling the trials,
//! with q and k.
//!
//! Draws from groups in turn (`cyclic-poisson`, independent noise): the samples of a cycle's draws move it by a vector
//! of coordinates `J_g·a`. Its length is at most the number of successful trials. So a cycle is dominated by one draw
//! of all k.
//!
//! # Numerics
//!
//! `R(x) = P/Q = Σ_j w_j e^{jax − j²a²/2}` grows in x. The upper bound splits the mass between two nodes onto them, so
//! that the masses of P and of Q are both preserved, as in [`gaussian`](super::gaussian). A point t between r and s
//! goes to s with the weight `(R(t) − R(r))/(R(s) − R(r))`. A difference of R is a sum of positive terms:
//!
//! ```text
//! R(m + d/2) − R(m − d/2) = Σ_j w_j e^{jam − j²a²/2} · 2 sinh(jad/2).
//! ```
//!
//! Integrals use a Gauss-Legendre rule of sixteen points. The lower bound merges the mass between two nodes.

use super::draw::{Atom, Direction, Losses};
use super::gaussian::{legendre, ln_normal, tail};
use damper_core::accounting::event::Rate;
use libm::{exp, expm1, lgamma, log, log1p, sinh};

/// Terms of a sum whose logarithm is this far below the largest are omitted. They are far below a rounding error.
const NEGLIGIBLE: f64 = 60.0;

/// The pair, in units of σ.
struct Pair {
    /// a, the largest shift of the release by one sample.
    near: f64,
    size: u32,
    /// `ln w_j − j²a²/2` for j from 0.
    ln_scales: Vec<f64>,
    /// `ln w_j`.
    ln_weights: Vec<f64>,
    /// The largest absolute sum of the terms of a weight's logarithm, among the weights that count.
    terms: f64,
}

impl Pair {
    fn new(near: f64, size: u32, rate: Rate) -> Self {
        let (ln_in, ln_out) = (log(rate.as_f64()), log(rate.complement().as_f64()));
        let k = f64::from(size);
        let times = |count: f64, ln: f64| if count == 0.0 { 0.0 } else { count * ln };
        let ln_weight = |j: u32| {
            let j = f64::from(j);
            let ways = lgamma(k + 1.0) - lgamma(j + 1.0) - lgamma(k - j + 1.0);
            ways + times(j, ln_in) + times(k - j, ln_out)
        };
        let ln_weights: Vec<f64> = (0..=size).map(ln_weight).collect();
        let scale = |(j, ln_weight): (usize, &f64)| {
            let shift = j as f64 * near;
            ln_weight - shift * shift / 2.0
        };
        let ln_scales = ln_weights.iter().enumerate().map(scale).collect();
        Self { near, size, ln_scales, ln_weights, terms: 3.0 * lgamma(k + 1.0) - k * (ln_in + ln_out) }
    }

    fn farthest(&self) -> f64 {
        f64::from(self.size) * self.near
    }

    /// A bound on the error of a logarithm at x: some units in the last place of its terms.
    fn slack(&self, x: f64) -> f64 {
        let far = self.farthest();
        16.0 * f64::EPSILON * (8.0 + self.terms + x * x + far * x.abs() + far * far)
    }

    /// `ln R(x)`, and a bound on its error.
    fn loss(&self, x: f64) -> (f64, f64) {
        // At a small rate R is close to 1, so compute its difference from 1.
        let (mut excess, mut size) = (0.0, 0.0);
        for (j, ln_weight) in self.ln_weights.iter().enumerate().skip(1) {
            let shift = j as f64 * self.near;
            let exponent = shift * x - shift * shift / 2.0;
            if exponent < 30.0 {
                let weight = exp(*ln_weight);
                excess += weight * expm1(exponent);
                size += weight * (1.0 + exp(exponent));
            } else {
                // For terms this large only the size matters, and it may overflow. The other form handles them.
                size += exp((ln_weight + exponent).min(700.0));
                excess = f64::NAN;
            }
        }
        if excess > -0.5 {
            return (log1p(excess), self.slack(x) * size / (1.0 + excess));
        }
        let exponents = || self.ln_scales.iter().enumerate().map(|(j, scale)| scale + j as f64 * self.near * x);
        let most = exponents().fold(f64::NEG_INFINITY, f64::max);
        (most + log(exponents().map(|exponent| exp(exponent - most)).sum()), self.slack(x))
    }

    /// The mass of P above x, rounded up.
    fn above(&self, x: f64) -> f64 {
        self.mixed(|shift| tail(x - shift))
    }

    /// The mass of P below x, rounded up.
    fn below(&self, x: f64) -> f64 {
        self.mixed(|shift| tail(shift - x))
    }

    fn mixed(&self, mass: impl Fn(f64) -> f64) -> f64 {
        let weighed = |(j, ln_weight): (usize, &f64)| exp(*ln_weight) * mass(j as f64 * self.near);
        let error = 1e-9 + 16.0 * f64::EPSILON * self.terms;
        self.ln_weights.iter().enumerate().map(weighed).sum::<f64>() * (1.0 + error)
    }
}

/// A point of the quadrature rule on an interval between two nodes: the distance from one end, and the weight.
struct RulePoint {
    from: f64,
    weight: f64,
    /// Factors for each j. The difference of R between the point and the other end is the sum of `w_j e^{jac − j²a²/2}`
    /// at the interval's middle c, times these factors. First for the left end, then for the right.
    left: Vec<f64>,
    right: Vec<f64>,
}

/// The quadrature rule of an interval. All intervals have the same length.
struct Rule {
    spacing: f64,
    points: Vec<RulePoint>,
    /// The factors of the difference between both ends.
    whole: Vec<f64>,
}

impl Rule {
    fn new(pair: &Pair, spacing: f64) -> Self {
        let factor = |change: f64, d: f64| -> Vec<f64> {
            let of = |j: u32| {
                let slope = f64::from(j) * pair.near;
                exp(slope * change) * sinh(slope * d / 2.0)
            };
            (0..=pair.size).map(of).collect()
        };
        let point = |(x, weight): (f64, f64)| {
            let from = spacing * (1.0 + x) / 2.0;
            let (left, right) = (factor(from / 2.0, spacing - from), factor(-from / 2.0, spacing - from));
            RulePoint { from, weight: weight * spacing / 2.0, left, right }
        };
        Self { spacing, points: legendre().into_iter().map(point).collect(), whole: factor(0.0, spacing) }
    }

    /// The mass of Q between `left` and `left + spacing`, split onto these two nodes. Each part is divided by the
    /// density of Q at its node.
    fn shares(&self, pair: &Pair, left: f64) -> (f64, f64) {
        let (middle, right) = (left + self.spacing / 2.0, left + self.spacing);
        let exponent = |j: usize| pair.ln_scales[j] + j as f64 * pair.near * middle;
        let most = (1..pair.ln_scales.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let terms: Vec<(usize, f64)> = (1..pair.ln_scales.len())
            .map(|j| (j, exponent(j) - most))
            .filter(|(_, exponent)| *exponent > -NEGLIGIBLE)
            .map(|(j, exponent)| (j, exp(exponent)))
            .collect();
        let sum = |factors: &[f64]| terms.iter().map(|(j, term)| term * factors[*j]).sum::<f64>();
        let whole = sum(&self.whole);
        let (mut of_left, mut of_right) = (0.0, 0.0);
        for RulePoint { from: u, weight, left: lefts, right: rights } in &self.points {
            of_left += weight * exp(-u * left - u * u / 2.0) * (sum(lefts) / whole);
            of_right += weight * exp(u * right - u * u / 2.0) * (sum(rights) / whole);
        }
        (of_left, of_right)
    }
}

/// The first node and the last node, in units of the spacing.
fn ends(pair: &Pair, spacing: f64, reach: f64) -> (i64, i64) {
    (-(reach / spacing).ceil() as i64, ((reach + pair.farthest()) / spacing).ceil() as i64)
}

/// An upper bound of the privacy loss distribution of a draw at a rate below 1.
pub(super) fn upper_pld(
    multiplier: f64,
    size: u32,
    rate: Rate,
    direction: Direction,
    spacing: f64,
    reach: f64,
) -> Losses {
    let pair = Pair::new((1.0 / multiplier).next_up(), size, rate);
    let rule = Rule::new(&pair, spacing);
    let (first, last) = ends(&pair, spacing, reach);
    let mut before = 0.0;
    let node = |i: i64| {
        let x = i as f64 * spacing;
        let (after, next) = if i < last { rule.shares(&pair, x) } else { (0.0, 0.0) };
        let received = before + after;
        before = next;
        let (ratio, error) = pair.loss(x);
        // The nodes at both ends receive almost no mass.
        let ln_mass = ln_normal(x) + log(received) + 2.0 * pair.slack(x);
        match direction {
            Direction::Remove => Atom { ln_mass: ln_mass + ratio + error, loss: ratio + error },
            Direction::Add => Atom { ln_mass, loss: error - ratio },
        }
    };
    let mut atoms: Vec<Atom> = (first..=last).map(node).collect();
    let (low, high) = (first as f64 * spacing, last as f64 * spacing);
    let (beyond, rest) = match direction {
        Direction::Remove => (pair.above(high), pair.below(low)),
        Direction::Add => {
            atoms.reverse();
            (tail(-low), tail(high))
        }
    };
    // The mass beyond the other end has smaller losses than the first point.
    if let Some(atom) = atoms.first_mut() {
        let most = atom.ln_mass.max(log(rest));
        atom.ln_mass = most + log(exp(atom.ln_mass - most) + exp(log(rest) - most)) + 1e-14;
    }
    Losses { atoms, beyond, second: 0.0 }
}

/// A lower bound of the distribution, in ascending order of the loss.
pub(super) fn lower_pld(
    multiplier: f64,
    size: u32,
    rate: Rate,
    direction: Direction,
    spacing: f64,
    reach: f64,
) -> Losses {
    let pair = Pair::new((1.0 / multiplier).next_down(), size, rate);
    let (first, last) = ends(&pair, spacing, reach);
    let rule = legendre();
    let cell = |i: i64| {
        let low = i as f64 * spacing;
        let point = |(x, weight): &(f64, f64)| {
            let u = spacing * (1.0 + x) / 2.0;
            (weight * spacing / 2.0 * exp(-u * low - u * u / 2.0), pair.loss(low + u).0)
        };
        let points = rule.map(|at| point(&at));
        let plain: f64 = points.iter().map(|(mass, _)| mass).sum();
        // Relative to the middle point, so that a mean near 1 keeps its digits.
        let about = points[8].1;
        let ratio = about + log1p(points.iter().map(|(mass, loss)| mass * expm1(loss - about)).sum::<f64>() / plain);
        let slack = pair.slack(low.abs() + spacing);
        let ln_mass = ln_normal(low) + log(plain) - 2.0 * slack;
        match direction {
            Direction::Remove => Atom { ln_mass: ln_mass + ratio - slack, loss: ratio - slack },
            Direction::Add => Atom { ln_mass, loss: -ratio - slack },
        }
    };
    let mut atoms: Vec<Atom> = (first..last).map(cell).collect();
    if direction == Direction::Add {
        atoms.reverse();
    }
    Losses { atoms, beyond: 0.0, second: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error of the exact divergence: tails are rounded up.
    const ROUNDED: f64 = 1e-11;
    const SETTINGS: [(f64, f64, u32); 7] = [
        (0.01, 0.7, 5),
        (0.2, 1.0, 3),
        (0.7, 4.0, 5),
        (1e-4, 0.6, 2),
        (0.99, 2.0, 4),
        (0.004, 1.1, 10),
        (0.3, 9.0, 40),
    ];

    fn weights(q: f64, size: u32) -> Vec<f64> {
        let one = |j: u32| {
            let choose = (1..=j).map(|i| f64::from(size - j + i) / f64::from(i)).product::<f64>();
            choose * q.powi(j as i32) * (1.0 - q).powi((size - j) as i32)
        };
        (0..=size).map(one).collect()
    }

    /// The hockey-stick divergence of the mixture. The likelihood ratio is increasing, so the divergence is that of a
    /// half-line, and bisection finds its end.
    fn exact(q: f64, sigma: f64, size: u32, epsilon: f64, direction: Direction) -> f64 {
        let weights = weights(q, size);
        let shift = |j: usize| j as f64 / sigma;
        let ratio = |x: f64| -> f64 {
            weights.iter().enumerate().map(|(j, w)| w * exp(shift(j) * x - shift(j) * shift(j) / 2.0)).sum()
        };
        let wanted = if direction == Direction::Remove { exp(epsilon) } else { exp(-epsilon) };
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if ratio(middle) < wanted { low = middle } else { high = middle }
        }
        let above = |x: f64| weights.iter().enumerate().map(|(j, w)| w * tail(x - shift(j))).sum::<f64>();
        let below = |x: f64| weights.iter().enumerate().map(|(j, w)| w * tail(shift(j) - x)).sum::<f64>();
        match direction {
            Direction::Remove => above(high) - exp(epsilon) * tail(high),
            Direction::Add => tail(-high) - exp(epsilon) * below(high),
        }
    }

    #[test]
    fn bounds_enclose_the_exact_divergence() {
        for (q, sigma, size) in SETTINGS {
            let rate = Rate::at_least(q).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let upper = upper_pld(sigma, size, rate, direction, 1.0 / 128.0, 8.0);
                let lower = lower_pld(sigma, size, rate, direction, 1.0 / 128.0, 8.0);
                for epsilon in [0.0, 0.001, 0.05, 0.3, 1.0, 2.5, 6.0] {
                    let exact = exact(rate.as_f64(), sigma, size, epsilon, direction).max(0.0);
                    let (high, low) = (upper.delta(epsilon), lower.delta(epsilon));
                    assert!(
                        low <= exact + ROUNDED && exact <= high + ROUNDED,
                        "{q} {sigma} {size} {direction:?} {epsilon}: {low:e} {exact:e} {high:e}"
                    );
                    assert!(
                        high <= 1.01 * exact + 1e-7 && low >= 0.99 * exact - 1e-7,
                        "{q} {sigma} {size} {direction:?} {epsilon}: {low:e} {exact:e} {high:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn both_masses_are_kept() {
        for (q, sigma, size) in SETTINGS {
            let rate = Rate::at_least(q).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let upper = upper_pld(sigma, size, rate, direction, 1.0 / 64.0, 7.0);
                let (first, second) = upper.masses();
                assert!((first + upper.beyond - 1.0).abs() < 1e-9, "{q} {sigma} {size}: {first}");
                assert!((second - 1.0).abs() < 1e-9, "{q} {sigma} {size}: {second}");
                assert!(upper.atoms.is_sorted_by(|a, b| a.loss <= b.loss));
            }
        }
    }

    /// A group of one equals a single sample: the same masses and losses as the pair of one sample, which uses other
    /// formulas.
    #[test]
    fn a_group_of_one_is_a_sample() {
        for (q, sigma) in [(0.01, 0.7), (0.3, 2.0), (1e-6, 1.0)] {
            let rate = Rate::at_least(q).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let group = upper_pld(sigma, 1, rate, direction, 1.0 / 128.0, 8.0);
                let nodes = super::super::gaussian::nodes(sigma, 1.0 / 128.0, 8.0);
                let one = super::super::draw::upper_pld(&nodes, rate, direction);
                for epsilon in [0.0, 0.01, 0.4, 2.0] {
                    let (found, known) = (group.delta(epsilon), one.delta(epsilon));
                    assert!(
                        (found - known).abs() <= 1e-3 * known + 1e-12,
                        "{q} {sigma} {epsilon}: {found:e} {known:e}"
                    );
                }
            }
        }
    }

    /// Both forms of the logarithm match a sum of densities.
    #[test]
    fn loss_is_the_logarithm_of_the_mixture() {
        for (q, sigma, size) in SETTINGS {
            let pair = Pair::new(1.0 / sigma, size, Rate::at_least(q).unwrap());
            let weights = weights(Rate::at_least(q).unwrap().as_f64(), size);
            for x in [-20.0, -3.0, -0.5, 0.0, 0.4, 2.0, 9.0, 25.0] {
                let (found, error) = pair.loss(x);
                let term = |(j, w): (usize, &f64)| {
                    let shift = j as f64 / sigma;
                    w * exp(shift * x - shift * shift / 2.0)
                };
                let exact = log(weights.iter().enumerate().map(term).sum::<f64>());
                assert!(
                    (found - exact).abs() <= 1e-13 * (1.0 + exact.abs()) + error,
                    "{q} {sigma} {x}: {found} {exact}"
                );
                assert!((0.0..1e-9).contains(&error), "{q} {sigma} {x}: {error:e}");
            }
        }
    }
}
