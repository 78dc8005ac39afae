//! Releases that are not Gaussian, as pairs of finitely many points.
//!
//! N₁ is the release with the sample, and N₀ without it. A draw at rate q is linear in both, so points that bound this
//! pair bound every draw ([`draw`](super::draw)).
//!
//! - A **discrete** release has its own points. Those far away are merged into the tails.
//! - A **Laplace** release of one number has its losses between `−1/b` and `1/b`, both with mass. Between them, the
//!   upper bound splits the mass of an interval onto its ends, and the lower bound merges it. On intervals of equal
//!   width h in units of b, the interior node at x has the N₀-mass `e^{−x/b}·tanh(h/2)`.
//!
//! The noises are log-concave, so a smaller shift of one number costs no more. Their densities fall with the distance,
//! so the likelihood ratio is monotone, and `H_γ` grows with the shift.

use super::draw::{self, Direction, Losses};
use super::gaussian::{self, Cells, Nodes, Point};
use super::{bound::Bound, replace};
use damper_core::accounting::event::Rate;
use libm::{exp, expm1, log, log1p, tanh};

/// The largest σ of a discrete Gaussian whose points are listed.
pub(crate) const LARGEST_LISTED: f64 = 4096.0;
/// The largest sensitivity of a discrete release.
pub(crate) const LARGEST_SHIFT: u32 = 1 << 16;
/// Intervals of a Laplace release: at least this many, and as many in each unit of loss.
const INTERVALS: f64 = 512.0;
const MOST_INTERVALS: f64 = 65_536.0;
/// From this σ on, the sum of a discrete Gaussian's weights is `σ√2π`, up to a factor of 1 ± 1e-30.
const THETA: f64 = 2.0;

/// A release of one number or of one answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Laplace noise of this scale on a number that a sample moves by at most 1.
    Laplace { scale: f64 },
    /// Discrete Laplace noise, `∝ e^{−a|k|}`, on an integer that a sample moves by at most `shift`.
    DiscreteLaplace { parameter: f64, shift: u32 },
    /// Discrete Gaussian noise on an integer that a sample moves by at most `shift`.
    DiscreteGaussian { sigma: f64, shift: u32 },
    /// Randomised response: the answer with probability 1 − p, otherwise one of the buckets. If `blank`, the other
    /// answer is a uniform bucket.
    Response { noise: f64, buckets: u32, blank: bool },
    /// Any (ε, δ)-private release. It has no draw: its rate is 1.
    Approximate { epsilon: f64, delta: f64 },
}

/// A part of a composition that is not a Poisson-sampled Gaussian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A draw of a release.
    Drawn { shape: Shape, rate: Rate },
    /// A Gaussian release of a batch of a fixed size, if one sample replaces another. The multiplier is in units of
    /// the largest shift, and the direction counts for a lower bound alone.
    Fixed { multiplier: f64, rate: Rate, direction: Direction },
}

impl Part {
    /// The losses. `direction` is that of the pair, or any if one sample replaces another.
    pub(super) fn losses(&self, bound: Bound, direction: Direction, spacing: f64, reach: f64) -> Losses {
        match (*self, bound) {
            (Self::Drawn { shape, rate }, Bound::Upper) => draw::upper_pld(&shape.nodes(reach), rate, direction),
            (Self::Drawn { shape, rate }, Bound::Lower) => {
                let losses = draw::lower_pld(&shape.cells(reach), rate, direction);
                Losses { beyond: shape.infinite(), ..losses }
            }
            (Self::Fixed { multiplier, rate, .. }, Bound::Upper) => {
                replace::upper_pld(multiplier, 1.0, rate, spacing, reach)
            }
            (Self::Fixed { multiplier, rate, direction }, Bound::Lower) => {
                draw::lower_pld(&gaussian::cells(multiplier, spacing, reach), rate, direction)
            }
        }
    }

    /// Returns true if the noise is so small that no bound is computed.
    pub(super) fn is_too_small(&self) -> bool {
        matches!(self, Self::Fixed { multiplier, .. } if *multiplier < gaussian::SMALLEST)
    }
}

impl Shape {
    /// The points of the upper bound.
    pub(super) fn nodes(&self, reach: f64) -> Nodes {
        match *self {
            Self::Laplace { scale } => Nodes { points: laplace_nodes(1.0 / scale), near: 0.0, far: 0.0 },
            Self::DiscreteGaussian { sigma, shift } => discrete_gaussian(sigma, shift, reach),
            Self::Approximate { epsilon, delta } => {
                Nodes { points: approximate(epsilon, delta), near: delta, far: 0.0 }
            }
            _ => Nodes { points: self.cells(reach), near: 0.0, far: 0.0 },
        }
    }

    /// The points of the lower bound.
    pub(super) fn cells(&self, reach: f64) -> Cells {
        match *self {
            Self::Laplace { scale } => laplace_cells(1.0 / scale),
            Self::DiscreteLaplace { parameter, shift } => discrete_laplace(parameter, shift),
            Self::DiscreteGaussian { sigma, shift } => discrete_gaussian(sigma, shift, reach).points,
            Self::Response { noise, buckets, blank } => response(noise, f64::from(buckets), blank),
            Self::Approximate { epsilon, delta } => approximate(epsilon, delta),
        }
    }

    /// The mass with an infinite loss.
    fn infinite(&self) -> f64 {
        if let Self::Approximate { delta, .. } = self { *delta } else { 0.0 }
    }

    /// Upper bounds of the Rényi divergences of these orders in either direction, of a draw at `rate`. Infinite if the
    /// points do not cover the whole release.
    pub(crate) fn divergences<const N: usize>(&self, rate: Rate, orders: &[f64; N]) -> [f64; N] {
        let nodes = self.nodes(0.0);
        if nodes.near > 0.0 || nodes.far > 0.0 {
            return [f64::INFINITY; N];
        }
        let both = [Direction::Remove, Direction::Add].map(|direction| draw::upper_pld(&nodes, rate, direction));
        orders.map(|order| {
            let at = |losses: &Losses| losses.tilted(order - 1.0).ln_moment / (order - 1.0);
            // The sum has at most some ten thousand terms. A `max` would drop a NaN.
            let [one, other] = [at(&both[0]), at(&both[1])];
            let larger = if one >= other { one } else { other };
            if one.is_nan() || other.is_nan() { f64::INFINITY } else { (larger * (1.0 + 1e-11) + 1e-11).max(0.0) }
        })
    }
}

fn point(ln_mass: f64, ln_ratio: f64) -> Point {
    Point { ln_mass, ln_ratio, slack: 64.0 * f64::EPSILON * (1.0 + ln_mass.abs() + ln_ratio.abs()) }
}

/// The number of intervals, even, so that a node has the loss 0.
fn intervals(reciprocal: f64) -> f64 {
    2.0 * (INTERVALS / 2.0 * reciprocal.max(1.0)).min(MOST_INTERVALS / 2.0).ceil()
}

fn laplace_nodes(reciprocal: f64) -> Vec<Point> {
    let count = intervals(reciprocal);
    let half = tanh(reciprocal / count / 2.0);
    let node = |j: i64| {
        let x = j as f64 / count;
        let mass = match j {
            0 => log(0.5 + half / 2.0),
            j if j as f64 == count => -reciprocal + log(0.5 + half / 2.0),
            _ => -reciprocal * x + log(half),
        };
        point(mass, reciprocal * (2.0 * j as f64 - count) / count)
    };
    (0..=count as i64).map(node).collect()
}

fn laplace_cells(reciprocal: f64) -> Cells {
    let count = intervals(reciprocal);
    let width = reciprocal / count;
    let cell = |j: i64| {
        let mass = -reciprocal * (j as f64 / count) + log(-expm1(-width) / 2.0);
        point(mass, reciprocal * (2.0 * j as f64 + 1.0 - count) / count)
    };
    let ends = |loss: f64| point(-(reciprocal + loss) / 2.0 - std::f64::consts::LN_2, loss);
    let inner = (0..count as i64).map(cell);
    std::iter::once(ends(-reciprocal)).chain(inner).chain([ends(reciprocal)]).collect()
}

fn discrete_laplace(parameter: f64, shift: u32) -> Cells {
    let shift = i64::from(shift);
    let ln_end = -log1p(exp(-parameter));
    let ln_middle = log(tanh(parameter / 2.0));
    let one = |k: i64| {
        let away = parameter * k as f64;
        let mass = if k == 0 || k == shift { ln_end } else { ln_middle };
        point(mass - away, parameter * (2 * k - shift) as f64)
    };
    (0..=shift).map(one).collect()
}

/// `Σ_k e^{−k²/2σ²}` over all integers.
fn theta(sigma: f64) -> f64 {
    if sigma >= THETA {
        return sigma * libm::sqrt(2.0 * std::f64::consts::PI);
    }
    1.0 + 2.0 * (1..=40).map(|k| exp(-f64::from(k * k) / (2.0 * sigma * sigma))).sum::<f64>()
}

fn discrete_gaussian(sigma: f64, shift: u32, reach: f64) -> Nodes {
    let (shift, double) = (i64::from(shift), 2.0 * sigma * sigma);
    let ln_total = log(theta(sigma));
    let side = (reach * sigma).ceil() as i64 + 1;
    let ln_mass = |k: i64| -(k as f64) * k as f64 / double - ln_total;
    let one = |k: i64| {
        let point = point(ln_mass(k), (2 * k - shift) as f64 * shift as f64 / double);
        Point { slack: point.slack + 1e-13, ..point }
    };
    // The mass from k on: a geometric series with the first ratio.
    let tail = |k: i64| exp(ln_mass(k)) / -expm1(-(2 * k + 1) as f64 / double) * (1.0 + 1e-10) + 1e-300;
    Nodes { points: (-side..=shift + side).map(one).collect(), near: tail(side + 1), far: tail(side + 1 + shift) }
}

fn response(noise: f64, buckets: f64, blank: bool) -> Cells {
    let mut points = if blank {
        let answer = log1p((1.0 - noise) * (buckets - 1.0));
        vec![point(log((buckets - 1.0) / buckets), log(noise)), point(-log(buckets), answer)]
    } else {
        let loss = log1p((1.0 - noise) * buckets / noise);
        let other = log(noise / buckets);
        vec![point(other + loss, -loss), point(other + log(buckets - 2.0), 0.0), point(other, loss)]
    };
    points.retain(|point| point.ln_mass > f64::NEG_INFINITY);
    points
}

fn approximate(epsilon: f64, delta: f64) -> Cells {
    let ln_less = log1p(-delta) - log1p(exp(-epsilon));
    vec![point(ln_less, -epsilon), point(ln_less - epsilon, epsilon)]
}

#[cfg(test)]
mod tests;
