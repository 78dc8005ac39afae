//! The dominating pair of a Poisson-sampled Gaussian release under replace-one adjacency, and its discretisation.
//!
//! # The pair
//!
//! Neighbours have x and x' at the same position. Given the trials of the others, their release is a Gaussian of
//! covariance σ²I, and the two distributions are `P = (1−q)N(0) + qN(g)` and `Q = (1−q)N(0) + qN(g')`, up to a common
//! translation. The hockey-stick divergence is jointly convex and invariant under a common translation. So the mixture
//! over the others' trials costs at most as much as the worst such pair. All quantities are in units of σ. With
//! `‖g‖, ‖g'‖ ≤ a` and `‖g − g'‖ ≤ b`, in any dimension, the claim is
//!
//! ```text
//! H_γ(P‖Q)  ≤  H_γ((1−q)N(0) + qN(a) ‖ (1−q)N(0) + qN(a−b))     for every γ ≥ 1.
//! ```
//!
//! If the clip is the only bound, then `a = 1/σ` and `b = 2a`. The pair is `(1−q)N(0) + qN(a)` and
//! `(1−q)N(0) + qN(−a)`. Two opposite gradients reach it, so it is tight (Lebeda, Regehr, Kamath, Steinke, "Avoiding
//! pitfalls for privacy accounting of subsampled mechanisms under composition", 2024, discuss substitution and this
//! pair). It is its own mirror image, so one direction covers both.
//!
//! # Proof
//!
//! For γ ≥ 1, `H_γ(P‖Q) = ∫ (qφ_g − γqφ_g' − (1−q)(γ−1)φ_0)₊`. Divide by `φ_g` and move g to the origin:
//!
//! ```text
//! H_γ = q·E[(1 − αM − βN)₊],   α, β ≥ 0,   M = e^{A − Σ_AA/2},   N = e^{B − Σ_BB/2},
//! ```
//!
//! A and B jointly normal with mean 0 and the covariance Σ of `−g` and `g' − g`: `Σ_AA = ‖g‖²`, `Σ_BB = ‖g' − g‖²` and
//! `Σ_AB = ⟨g, g − g'⟩`. Gradients that are not collinear enter through Σ alone. Let `F(Σ) = E[k(αM + βN)]` with a
//! convex k. The heat equation (Plackett's identity, for exponentials that are martingales) gives
//!
//! ```text
//! ∂F/∂Σ_AA = ½E[α²M²k'']  ≥ 0,     ∂F/∂Σ_BB = ½E[β²N²k'']  ≥ 0,     ∂F/∂Σ_AB = E[αM·βN·k'']  ≥ 0,
//! ```
//!
//! first for smooth k, and in the limit for `(1−z)₊`. So F grows along the segment from Σ to any Σ' that is at least as
//! large in every entry, and all matrices between two covariances are covariances. Here `Σ_AA ≤ a²`, `Σ_BB ≤ b²`, and
//! by Cauchy and Schwarz `Σ_AB ≤ ab`. These bounds are Σ' of the collinear shifts a and b. Both proportions α and β are
//! preserved. ∎
//!
//! For γ < 1, `H_γ(P‖Q) = 1 − γ + γ·H_{1/γ}(Q‖P)`, and the claim holds for (Q, P) as for (P, Q). So the pair of a
//! replacement takes its losses above 0 from the pair above, and those below 0 from its mirror image. The rest of its
//! mass, which vanishes for `b = 2a`, is at 0. Dominating pairs compose, adaptively too (Zhu, Dong, Wang, "Optimal
//! accounting of differential privacy via characteristic function", AISTATS 2022, theorem 10).
//!
//! Counts next to the gradient: one-hot counts of x and x' are two unit vectors, so `a² = 1/σ_T² + 1/σ_H²` and
//! `b² = 4/σ_T² + 2/σ_H²`. For them the bound is not reached, because `Σ_AB = b²/2 < ab`. It is exact as q tends to 0
//! and at q = 1.
//!
//! # Numerics
//!
//! The loss vanishes at `x* = a − b/2`. With `x = x* + t`, `c = b − a` and `k = ac/2` the densities over that of N(0)
//! are `p(t) = 1 − q + q·e^{at−k}` and `1 − q + q·e^{−ct−k}`. The upper bound splits the mass of P between two nodes
//! onto them, so that the masses of P and Q are preserved. This is the largest spread of the likelihood ratio with the
//! given mean and range, so no hockey-stick divergence falls. A point t between r and s goes to s with the weight
//! `D(r, t)/D(r, s)`. Here
//!
//! ```text
//! D(r, s) = Q(r)p(s) − Q(s)p(r)
//!         ∝ e^{am}·((1−q)(sinh(ad/2) + e^{−bm} sinh(cd/2)) + q·e^{−k−cm} sinh(bd/2)),   m = (r+s)/2, d = s − r:
//! ```
//!
//! All terms are positive. Integrals use a Gauss-Legendre rule of sixteen points on intervals on which the exponents
//! change by less than 2. The lower bound merges the mass between two nodes.

use super::draw::{Atom, Losses};
use super::gaussian::{legendre, ln_normal, side, tail};
use damper_core::accounting::event::Rate;
use libm::{exp, expm1, log, log1p, sinh};

/// The pair, in units of σ.
struct Pair {
    q: f64,
    out: f64,
    /// a, the largest distance of either release from the common part.
    near: f64,
    /// c: b − a.
    back: f64,
    /// x*, the point at which the loss vanishes.
    origin: f64,
    /// k = ac/2.
    shrink: f64,
    rule: [(f64, f64); 16],
}

impl Pair {
    fn new(near: f64, apart: f64, rate: Rate) -> Self {
        let back = near * (apart - 1.0);
        Self {
            q: rate.as_f64(),
            out: rate.complement().as_f64(),
            near,
            back,
            origin: (near - back) / 2.0,
            shrink: near * back / 2.0,
            rule: legendre(),
        }
    }

    /// The index of the last node, which has the largest t.
    fn nodes(&self, spacing: f64, reach: f64) -> i64 {
        side(1.0 / (self.near + self.back), spacing, reach)
    }

    /// A bound on the error of a logarithm at t, and on the relative error of a loss: some units in the last place of
    /// the terms.
    fn slack(&self, t: f64) -> f64 {
        let z = t + self.origin;
        16.0 * f64::EPSILON * (z * z + 2.0 * (self.near + self.back) * t + self.shrink + 8.0)
    }

    /// `ln(1 − q + q·e^x)`.
    fn ln_mixed(&self, x: f64) -> f64 {
        if self.q == 1.0 {
            x
        } else if x > 30.0 {
            x + log(self.q) + log1p(self.out / self.q * exp(-x))
        } else {
            log(self.out + self.q * exp(x))
        }
    }

    /// `ln p(t)`.
    fn ln_first(&self, t: f64) -> f64 {
        self.ln_mixed(self.near * t - self.shrink)
    }

    /// The loss at t ≥ 0, and a bound on its error. It avoids the cancellation that a difference has for small losses.
    fn loss(&self, t: f64) -> (f64, f64) {
        let (exponent, apart) = (self.near * t - self.shrink, (self.near + self.back) * t);
        if self.q == 1.0 {
            (apart, self.slack(t) * apart)
        } else if exponent > 30.0 {
            let loss = self.ln_mixed(exponent) - self.ln_mixed(exponent - apart);
            (loss, self.slack(t) * (1.0 - log(self.q)))
        } else {
            let second = self.out + self.q * exp(exponent - apart);
            let loss = log1p(self.q * exp(exponent) * -expm1(-apart) / second);
            (loss, self.slack(t) * loss)
        }
    }

    fn integral(&self, length: f64, value: impl Fn(f64) -> f64) -> f64 {
        let point = |(x, weight): &(f64, f64)| weight * value(length * (1.0 + x) / 2.0);
        length / 2.0 * self.rule.iter().map(point).sum::<f64>()
    }

    /// Returns the mass that the node at t receives from the interval of length `spacing` on one side, divided by p(t)
    /// and by the density of N(0) at t.
    fn share(&self, t: f64, spacing: f64, sign: f64) -> f64 {
        let (near, back) = (self.near, self.back);
        let (z, middle) = (t + self.origin, t + sign * spacing / 2.0);
        let (ln_out, ln_in) = (log(self.out), log(self.q) - self.shrink - back * middle);
        let most = ln_out.max(ln_in);
        let (out, inside) = (exp(ln_out - most), exp(ln_in - most));
        // D of points at distance d about `middle + change`, up to a constant factor.
        let determinant = |d: f64, change: f64| {
            let unsampled = sinh(near * d / 2.0) + exp(-(near + back) * (middle + change)) * sinh(back * d / 2.0);
            let sampled = exp(-back * change) * sinh((near + back) * d / 2.0);
            exp(near * change) * (out * unsampled + inside * sampled)
        };
        let whole = determinant(spacing, 0.0);
        self.integral(spacing, |u| exp(-sign * u * z - u * u / 2.0) * determinant(spacing - u, sign * u / 2.0) / whole)
    }
}

/// Returns an upper bound of the draw's privacy loss distribution. `multiplier` is 1/a, and `apart` is b/a, from 1 to
/// 2.
pub(super) fn upper_pld(multiplier: f64, apart: f64, rate: Rate, spacing: f64, reach: f64) -> Losses {
    let pair = Pair::new((1.0 / multiplier).next_up(), apart, rate);
    let last = pair.nodes(spacing, reach);
    let node = |j: i64| {
        let t = j as f64 * spacing;
        let after = if j < last { pair.share(t, spacing, 1.0) } else { 0.0 };
        let before = if j > 0 { pair.share(t, spacing, -1.0) } else { 0.0 };
        let ln_mass = ln_normal(t + pair.origin) + pair.ln_first(t) + log(before + after) + 2.0 * pair.slack(t);
        let (loss, error) = pair.loss(t);
        let mirrored = Atom { ln_mass: ln_mass - loss + error, loss: error - loss };
        (Atom { ln_mass, loss: loss + error }, mirrored)
    };
    let nodes: Vec<(Atom, Atom)> = (0..=last).map(node).collect();
    let mut atoms: Vec<Atom> = nodes.iter().rev().map(|(_, mirrored)| *mirrored).collect();
    let middle = atoms.len();
    atoms.extend(nodes.iter().map(|(atom, _)| *atom));
    let taken: f64 = atoms.iter().map(|atom| exp(atom.ln_mass)).sum();
    atoms.insert(middle, Atom { ln_mass: log((1.0 - taken).max(0.0) + 1e-13), loss: 0.0 });
    let edge = last as f64 * spacing + pair.origin;
    Losses { atoms, beyond: pair.out * tail(edge) + pair.q * tail(edge - pair.near), second: 0.0 }
}

/// Returns a lower bound of the draw's privacy loss distribution for `b = 2a`, in ascending order of the loss.
pub(super) fn lower_pld(multiplier: f64, rate: Rate, spacing: f64, reach: f64) -> Losses {
    let pair = Pair::new((1.0 / multiplier).next_down(), 2.0, rate);
    let near = pair.near;
    let cell = |j: i64| {
        let t = (j as f64 + 0.5) * spacing;
        let integral = |value: &dyn Fn(f64) -> f64| {
            pair.integral(spacing, |from| {
                let u = from - spacing / 2.0;
                value(u) * exp(-u * t - u * u / 2.0)
            })
        };
        let plain = integral(&|_| 1.0);
        let moved = |sign: f64| sign * near * t - pair.shrink + log(integral(&|u| exp(sign * near * u)) / plain);
        let (ln_first, ln_second) = (pair.ln_mixed(moved(1.0)), pair.ln_mixed(moved(-1.0)));
        let (exponent, slack) = (near * t - pair.shrink, 2.0 * pair.slack(t));
        let (loss, error) = if exponent > 30.0 || pair.q == 1.0 {
            (ln_first - ln_second, slack * (1.0 - log(pair.q)))
        } else {
            let difference = integral(&|u| exp(near * u) * -expm1(-2.0 * near * (t + u))) / plain;
            let loss = log1p(pair.q * exp(exponent) * difference / exp(ln_second));
            (loss, slack * loss)
        };
        let ln_mass = ln_normal(t) + log(plain) - slack;
        let above = Atom { ln_mass: ln_mass + ln_first, loss: (loss - error).max(0.0) };
        (above, Atom { ln_mass: ln_mass + ln_second, loss: -loss - error })
    };
    let cells: Vec<(Atom, Atom)> = (0..pair.nodes(spacing, reach)).map(cell).collect();
    let mut atoms: Vec<Atom> = cells.iter().rev().map(|(_, mirrored)| *mirrored).collect();
    atoms.extend(cells.iter().map(|(atom, _)| *atom));
    Losses { atoms, beyond: 0.0, second: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error of the exact divergence: tails are rounded up.
    const ROUNDED: f64 = 1e-11;
    const SETTINGS: [(f64, f64, f64); 5] =
        [(0.01, 0.7, 2.0), (0.2, 1.0, 2.0), (0.6, 3.0, 1.4), (1.0, 4.0, 2.0), (0.05, 1.5, 1.1)];

    /// The hockey-stick divergence of `(1-q)N(0) + qN(a)` and `(1-q)N(0) + qN(a-b)`. The ratio is increasing, so the
    /// divergence is that of a half-line.
    fn exact(q: f64, sigma: f64, apart: f64, epsilon: f64) -> f64 {
        let (a, other) = (1.0 / sigma, (1.0 - apart) / sigma);
        let density = |x: f64, shift: f64| 1.0 - q + q * exp(shift * x - shift * shift / 2.0);
        let (mut low, mut high) = (-40.0, 40.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if log(density(middle, a)) - log(density(middle, other)) < epsilon { low = middle } else { high = middle }
        }
        let above = |shift: f64| (1.0 - q) * tail(high) + q * tail(high - shift);
        above(a) - exp(epsilon) * above(other)
    }

    #[test]
    fn bounds_enclose_the_exact_divergence() {
        for (q, sigma, apart) in SETTINGS {
            let rate = Rate::at_least(q).unwrap();
            let upper = upper_pld(sigma, apart, rate, 1.0 / 128.0, 8.0);
            let lower = (apart == 2.0).then(|| lower_pld(sigma, rate, 1.0 / 128.0, 8.0));
            for epsilon in [0.0, 0.01, 0.2, 0.9, 2.0] {
                let exact = exact(rate.as_f64(), sigma, apart, epsilon).max(0.0);
                let high = upper.delta(epsilon);
                assert!(
                    exact <= high + ROUNDED && high <= 1.005 * exact + 1e-7,
                    "{q} {sigma} {apart} {epsilon}: {exact:e} {high:e}"
                );
                if let Some(lower) = &lower {
                    let low = lower.delta(epsilon);
                    assert!(
                        low <= exact + ROUNDED && low >= 0.995 * exact - 1e-7,
                        "{q} {sigma} {epsilon}: {low:e} {exact:e}"
                    );
                }
            }
        }
    }

    /// From densities, for which a difference of logarithms loses digits near 0.
    #[test]
    fn loss_is_the_logarithm_of_the_ratio() {
        for (q, near, apart) in [(1.0, 0.5, 2.0), (0.2, 0.5, 2.0), (0.3, 10.0, 2.0), (1e-6, 4.0, 1.5), (0.9, 6.0, 1.2)]
        {
            let pair = Pair::new(near, apart, Rate::at_least(q).unwrap());
            let (q, a, other) = (pair.q, near, near * (1.0 - apart));
            for t in [0.0625, 1.0, 3.0, 9.0, 20.0] {
                let x = t + pair.origin;
                let ln_density = |shift: f64| {
                    let exponent = shift * x - shift * shift / 2.0;
                    if exponent > 30.0 {
                        exponent + log(q) + (1.0 - q) / q * exp(-exponent)
                    } else {
                        log(1.0 - q + q * exp(exponent))
                    }
                };
                let exact = ln_density(a) - ln_density(other);
                let (found, error) = pair.loss(t);
                assert!((found - exact).abs() < 1e-12 * (1.0 + exact), "{q} {near} {t}: {found}, not {exact}");
                assert!((pair.ln_first(t) - ln_density(a)).abs() < 1e-12 * (1.0 + exact), "{q} {near} {t}");
                let slack =
                    16.0 * f64::EPSILON * (x * x + 2.0 * near * apart * t + near * near * (apart - 1.0) / 2.0 + 8.0);
                let scale = if a * x - a * a / 2.0 > 30.0 && q < 1.0 { 1.0 - log(q) } else { found };
                assert!((error / (slack * scale) - 1.0).abs() < 1e-6, "{q} {near} {t}: {error:e}");
            }
        }
    }

    /// The shares that a point between two nodes gives to the node at t solve two equations, one per distribution.
    /// Simpson's rule over the interval.
    #[test]
    fn shares_keep_both_distributions() {
        for (q, near, apart) in [(0.2, 0.5, 2.0), (0.6, 1.0, 1.3), (0.9, 3.0, 2.0), (1.0, 2.0, 1.7), (1e-3, 2.0, 2.0)] {
            let pair = Pair::new(near, apart, Rate::at_least(q).unwrap());
            let shift = near * (apart - 1.0);
            let density = |t: f64, slope: f64| 1.0 - q + q * exp(slope * t - near * shift / 2.0);
            let both = |t: f64| (density(t, near), density(t, -shift));
            for t in [0.25, 1.0, 3.0] {
                for sign in [1.0, -1.0] {
                    let spacing = 0.125;
                    let other = both(t + sign * spacing);
                    let cross = |a: (f64, f64), b: (f64, f64)| a.0 * b.1 - a.1 * b.0;
                    let weight = |u: f64| cross(both(t + sign * u), other) / cross(both(t), other);
                    let normal = |u: f64| exp(ln_normal(t + sign * u + pair.origin) - ln_normal(t + pair.origin));
                    let simpson = |k: i32| if k == 0 || k == 64 { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
                    let term = |k: i32| {
                        let u = spacing * f64::from(k) / 64.0;
                        simpson(k) * weight(u) * normal(u) * spacing / 192.0
                    };
                    let exact: f64 = (0..=64).map(term).sum();
                    let found = pair.share(t, spacing, sign);
                    assert!((found / exact - 1.0).abs() < 1e-9, "{q} {near} {t} {sign}: {found:e}, not {exact:e}");
                }
            }
        }
    }

    /// Each cell has the masses of its interval, and the mirrored cell has them exchanged, less the allowance for
    /// rounding.
    #[test]
    fn cells_have_the_masses_of_intervals() {
        for (q, sigma) in [(0.2, 1.0), (0.7, 0.4), (1.0, 4.0), (1e-3, 0.25)] {
            let rate = Rate::at_least(q).unwrap();
            let lower = lower_pld(sigma, rate, 1.0 / 16.0, 9.0);
            let (a, middle) = (1.0 / sigma, lower.atoms.len() / 2);
            let mass = |j: usize, shift: f64| {
                let (from, to) = (j as f64 / 16.0, (j + 1) as f64 / 16.0);
                let density = |x: f64| exp(ln_normal(x)) * (1.0 - q + q * exp(shift * x - shift * shift / 2.0));
                let simpson = |k: i32| if k == 0 || k == 64 { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
                (0..=64).map(|k| simpson(k) * density(from + (to - from) * f64::from(k) / 64.0)).sum::<f64>() / 3072.0
            };
            for j in (0..middle.min(140)).step_by(7) {
                let (first, second) = (mass(j, a), mass(j, -a));
                let (above, below) = (lower.atoms[middle + j], lower.atoms[middle - 1 - j]);
                for (atom, first, second) in [(above, first, second), (below, second, first)] {
                    assert!((exp(atom.ln_mass) / first - 1.0).abs() < 1e-9, "{q} {sigma} {j}");
                    let loss = (first / second).ln();
                    assert!(
                        (atom.loss - loss).abs() < 1e-9 * (1.0 + loss.abs()),
                        "{q} {sigma} {j}: {} {loss}",
                        atom.loss
                    );
                    assert!(atom.loss < loss + 1e-11 * (1.0 + loss.abs()), "{q} {sigma} {j}: {} {loss}", atom.loss);
                }
            }
        }
    }

    /// The last node's position follows from its loss. The mass beyond it is the pair's own tail.
    #[test]
    fn beyond_is_the_tail_at_the_last_node() {
        for (q, sigma, apart) in SETTINGS {
            let upper = upper_pld(sigma, apart, Rate::at_least(q).unwrap(), 1.0 / 64.0, 2.0);
            let (a, other) = (1.0 / sigma, (1.0 - apart) / sigma);
            let loss = |x: f64| {
                let density = |shift: f64| 1.0 - q + q * exp(shift * x - shift * shift / 2.0);
                log(density(a) / density(other))
            };
            let last = upper.atoms.last().unwrap().loss;
            let (mut low, mut high) = (0.0, 40.0);
            for _ in 0..100 {
                let middle = (low + high) / 2.0;
                if loss(middle) < last { low = middle } else { high = middle }
            }
            let exact = (1.0 - q) * tail(high) + q * tail(high - a);
            assert!(
                (upper.beyond / exact - 1.0).abs() < 1e-7,
                "{q} {sigma} {apart}: {:e}, not {exact:e}",
                upper.beyond
            );
            // The mass that the nodes leave is at 0.
            assert!((upper.masses().0 - 1.0).abs() < 1e-12);
        }
    }

    /// With b = 2a, the only mass at 0 is that of P beyond the last nodes: nodes take no mass from beyond.
    #[test]
    fn nodes_take_nothing_from_beyond() {
        for (q, sigma) in [(0.01, 0.7), (0.2, 1.0), (1.0, 4.0)] {
            let (rate, spacing) = (Rate::at_least(q).unwrap(), 1.0 / 64.0);
            let upper = upper_pld(sigma, 2.0, rate, spacing, 2.0);
            let middle = upper.atoms.len() / 2;
            let (a, edge) = (1.0 / sigma, (middle - 1) as f64 * spacing);
            let exact = (1.0 - q) * 2.0 * tail(edge) + q * (tail(edge - a) + tail(edge + a));
            let found = exp(upper.atoms[middle].ln_mass);
            assert!(upper.atoms[middle].loss == 0.0 && (found / exact - 1.0).abs() < 1e-8, "{q}: {found:e} {exact:e}");
        }
    }

    /// The allowance for rounding raises the nodes' masses and losses, on both sides.
    #[test]
    fn nodes_are_lifted_by_their_slack() {
        let rate = Rate::at_least(0.2).unwrap();
        let upper = upper_pld(1.0, 2.0, rate, 0.25, 6.0);
        let pair = Pair::new(1f64.next_up(), 2.0, rate);
        let middle = upper.atoms.len() / 2;
        for j in 1..10 {
            let t = 0.25 * j as f64;
            let (above, below) = (upper.atoms[middle + 1 + j], upper.atoms[middle - 1 - j]);
            let share = pair.share(t, 0.25, 1.0) + pair.share(t, 0.25, -1.0);
            let (slack, (loss, error)) = (2.0 * pair.slack(t), pair.loss(t));
            let lifted = above.ln_mass - (ln_normal(t) + pair.ln_first(t) + log(share));
            assert!((lifted / slack - 1.0).abs() < 0.1, "{j}: {lifted:e} {slack:e}");
            let mirrored = below.ln_mass - (above.ln_mass - loss);
            assert!(
                (mirrored - error).abs() <= 1e-15 && above.loss == loss + error && below.loss == error - loss,
                "{j}"
            );
        }
    }

    /// The part of the losses below 0 is the mirror image of the part above.
    #[test]
    fn both_masses_are_kept() {
        for (q, sigma, apart) in SETTINGS {
            let losses = upper_pld(sigma, apart, Rate::at_least(q).unwrap(), 1.0 / 64.0, 7.0);
            let (first, second) = losses.masses();
            assert!(
                (first + losses.beyond - 1.0).abs() < 1e-9 && (second + losses.beyond - 1.0).abs() < 1e-9,
                "{first} {second}"
            );
            assert!(losses.atoms.is_sorted_by(|a, b| a.loss <= b.loss));
        }
    }
}
