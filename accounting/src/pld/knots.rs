//! Events of many sizes as mixtures of few.
//!
//! # A mixture dominates
//!
//! Let `H_γ(μ)` be the hockey-stick divergence of a Gaussian and its shift, μ = 1/σ. With γ = e^ε,
//! `dH/dμ = φ(ε/μ − μ/2)`. In `τ(μ) = erf(μ/√8)`, the total variation, whose derivative is proportional to `e^{−μ²/8}`,
//!
//! ```text
//! d/dμ ln(dH/dτ) = ε²/μ³ − μ/4 + μ/4 = ε²/μ³ ≥ 0:
//! ```
//!
//! so H is convex in τ at every γ.
//!
//! With P = (1−q)N₀ + qN₁, `H_γ(P‖N₀) = q·H_γ'(N₁‖N₀)` with `γ' = (γ−1+q)/q` if that is positive (else `1 − γ`). Also,
//! `H_γ(N₀‖P) = 1 − γ + γ·H_{1/γ}(P‖N₀)`. So both are convex in τ, too. In q both are convex since P is linear in q. So
//! an event between two multipliers is dominated by a mixture of the two with public weights, linear in τ. The same
//! holds for an event between two rates. A composition of dominating pairs dominates.
//!
//! For the pair of a replacement (`replace`, with `b = 2a`) the same holds in `τ(a) = erf(a/√2)`, its total variation
//! at q = 1. This is at twice μ above. Its divergence is `H = q·(Φ(a − x) − γΦ(−a − x)) − (1−q)(γ−1)Φ(−x)` at the point
//! x that satisfies `u = v + w`. Here `u = φ(x−a)`, `v = γφ(x+a)` and `w = (1−q)(γ−1)/q·φ(x)` are the densities. So
//! `dH/da = q(u + v)`. With `β = w/(u + v)`, which lies in [0, 1], and `y = x/a` that condition gives `dx/da = β − y`,
//! and then
//!
//! ```text
//! d/da ln(dH/dτ) = a(y² − βy + β² − 1) + a ≥ ¾aβ² ≥ 0.
//! ```
//!
//! For a group of samples (`group`) neither property is proved. An event is then accounted as the knot above it,
//! because divergences grow with precision and rate.
//!
//! The excess of a mixture is of second order in the distance of the knots. Weights are rounded up to multiples of
//! 1/[`LEVELS`], so that equal weights are counted together.

use damper_core::accounting::event::{Rate, SampledGaussian};
use libm::{erf, erfc, exp, log};
use std::collections::{BTreeMap, BTreeSet};

/// Up to this number of different events, each event is a knot.
const FEW: usize = 32;
/// Neighbouring knots differ by this in the logarithm.
const RATIO: f64 = 0.02;
/// The approximate largest number of knots in each direction.
const MOST: usize = 192;
const LEVELS: f64 = 16.0;

/// An event as a mixture: knots and their weights, which sum to 1.
pub(super) type Mixture = Vec<(usize, f64)>;

/// Events as mixtures of knots.
#[derive(Clone, Debug)]
pub(super) struct Knots {
    pub knots: Vec<SampledGaussian>,
    pub mixtures: Vec<(Mixture, u64)>,
}

/// Each event as a knot, with equal events merged.
pub(super) fn exact(events: &[(SampledGaussian, u64)]) -> Knots {
    let mut counts = BTreeMap::<(u64, u64), (SampledGaussian, u64)>::new();
    for (event, times) in events.iter().filter(|(_, times)| *times > 0) {
        let key = (event.multiplier().to_bits(), event.rate().numerator());
        counts.entry(key).or_insert((*event, 0)).1 += times;
    }
    let knots = counts.values().map(|(event, _)| *event).collect();
    let mixtures = counts.values().enumerate().map(|(at, (_, times))| (vec![(at, 1.0)], *times)).collect();
    Knots { knots, mixtures }
}

/// A few knots that cost at least as much as the events.
///
/// `apart` is the largest distance of the two neighbouring releases in units of 1/σ: 1 if a sample is present or
/// absent, 2 if it is replaced. None if only the knot above an event is known to dominate it.
pub(super) fn few(events: &[(SampledGaussian, u64)], apart: Option<f64>) -> Knots {
    let exact = exact(events);
    if exact.knots.len() <= FEW {
        return exact;
    }
    // Precisions and rates. The privacy cost grows with both.
    let precisions = Axis::new(exact.knots.iter().map(|event| 1.0 / event.multiplier()));
    let rates = Axis::new(exact.knots.iter().map(|event| event.rate().as_f64()));
    let mut wanted = BTreeSet::new();
    let mut counts = BTreeMap::<((usize, u32), (usize, u32)), u64>::new();
    for (event, (_, times)) in exact.knots.iter().zip(&exact.mixtures) {
        let variation = |low: f64, high: f64| apart.map_or(f64::NAN, |apart| variation(apart * low, apart * high));
        let precision = precisions.place(1.0 / event.multiplier(), variation);
        let rate = rates.place(event.rate().as_f64(), |low, high| apart.map_or(f64::NAN, |_| high - low));
        *counts.entry((precision, rate)).or_insert(0) += times;
        for (p, _) in parts(precision) {
            for (r, _) in parts(rate) {
                wanted.insert((p, r));
            }
        }
    }
    let number = |p: usize, r: usize| wanted.range(..(p, r)).count();
    let index: BTreeMap<(usize, usize), usize> = wanted.iter().map(|&(p, r)| ((p, r), number(p, r))).collect();
    let mixtures = counts.iter().map(|(&(precision, rate), &times)| {
        let mixture = parts(precision).flat_map(|(p, weight)| {
            let index = &index;
            parts(rate).map(move |(r, share)| (index[&(p, r)], weight * share))
        });
        (mixture.collect(), times)
    });
    let mixtures = mixtures.collect();
    // Rounding of 1/σ may lose a bit, so take the next smaller multiplier.
    let knot = |&(p, r): &(usize, usize)| {
        let rate = Rate::at_least(rates.knots[r].min(1.0)).ok()?;
        SampledGaussian::new(rate, (1.0 / precisions.knots[p]).next_down()).ok()
    };
    match wanted.iter().map(knot).collect() {
        Some(knots) => Knots { knots, mixtures },
        None => exact,
    }
}

/// The difference in total variation between two precisions, `low < high`.
fn variation(low: f64, high: f64) -> f64 {
    let scale = libm::sqrt(8.0);
    if low > 0.5 { erfc(low / scale) - erfc(high / scale) } else { erf(high / scale) - erf(low / scale) }
}

/// The two knots of a place and their weights, or one knot if the other weight is 0.
fn parts((upper, level): (usize, u32)) -> impl Iterator<Item = (usize, f64)> + Clone {
    let weight = f64::from(level) / LEVELS;
    [(upper, weight), (upper.wrapping_sub(1), 1.0 - weight)].into_iter().filter(|(_, weight)| *weight > 0.0)
}

/// Knots of one parameter, ascending.
struct Axis {
    knots: Vec<f64>,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.fold(f64::INFINITY, f64::min);
        let span = log(most / least);
        let count = ((span / RATIO).ceil() as usize).clamp(1, MOST);
        if span < 1e-9 {
            return Self { knots: vec![most] };
        }
        // From the largest value down to slightly below the smallest.
        let mut knots: Vec<f64> = (0..=count).map(|k| most * exp(-(span + 1e-9) * k as f64 / count as f64)).collect();
        knots.reverse();
        knots.dedup();
        Self { knots }
    }

    /// The knot at or above a value, and its weight in `1/LEVELS`, rounded up. The remaining weight belongs to the knot
    /// below.
    fn place(&self, value: f64, between: impl Fn(f64, f64) -> f64) -> (usize, u32) {
        let upper = self.knots.partition_point(|knot| *knot < value).min(self.knots.len() - 1);
        let Some(below) = upper.checked_sub(1) else { return (upper, LEVELS as u32) };
        let (low, high) = (self.knots[below], self.knots[upper]);
        let share = between(low, value) / between(low, high);
        let level = if share.is_finite() { (share * LEVELS + 1e-6).ceil().clamp(1.0, LEVELS) } else { LEVELS };
        (upper, level as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `H_γ(N₁‖N₀)` at γ = e^ε for μ = 1/σ.
    fn divergence(mu: f64, epsilon: f64) -> f64 {
        let phi = |x: f64| 0.5 * erfc(-x / libm::sqrt(2.0));
        phi(mu / 2.0 - epsilon / mu) - exp(epsilon) * phi(-mu / 2.0 - epsilon / mu)
    }

    /// Matches the integral of its derivative, also in ranges in which either form is inexact.
    #[test]
    fn variation_is_the_integral_of_a_density() {
        for (low, high) in [(0.01, 0.0101), (0.3, 0.9), (0.6, 0.601), (8.0, 8.1), (15.0, 15.01), (30.0, 30.5)] {
            let slope = |x: f64| exp(-x * x / 8.0) / libm::sqrt(std::f64::consts::TAU);
            let width = (high - low) / 4000.0;
            let exact: f64 = (0..4000).map(|k| width * slope(low + (f64::from(k) + 0.5) * width)).sum();
            let found = variation(low, high);
            assert!((found / exact - 1.0).abs() < 1e-5, "{low}: {found:e}, not {exact:e}");
        }
    }

    #[test]
    fn a_place_is_the_knot_above_and_a_share() {
        let axis = Axis::new([1.0, 2.0, 4.0].into_iter());
        let knots = axis.knots.len();
        assert!(axis.knots[0] < 1.0 && axis.knots[knots - 1] == 4.0 && (70..=71).contains(&knots), "{knots}");
        assert!(axis.knots.windows(2).all(|pair| pair[1] / pair[0] < 1.0202 && pair[1] > pair[0]));
        let (low, high) = (axis.knots[9], axis.knots[10]);
        let linear = |low: f64, high: f64| high - low;
        for (share, level) in [(0.01, 1), (0.24, 4), (0.26, 5), (0.99, 16)] {
            assert_eq!(axis.place(low + share * (high - low), linear), (10, level));
        }
        assert_eq!(axis.place(high, linear), (10, 16));
        assert_eq!((axis.place(0.5, linear), axis.place(5.0, linear)), ((0, 16), (knots - 1, 16)));
        assert_eq!(Axis::new([3.0, 3.0].into_iter()).place(3.0, linear), (0, 16));
        let found: Vec<_> = parts((3, 4)).chain(parts((3, 16))).collect();
        assert_eq!(found, [(3, 0.25), (2, 0.75), (3, 1.0)]);
    }

    #[test]
    fn equal_events_are_counted_together() {
        let event = |q: f64, sigma: f64| SampledGaussian::new(Rate::at_least(q).unwrap(), sigma).unwrap();
        let events = [(event(0.5, 1.0), 3), (event(0.5, 2.0), 1), (event(0.5, 1.0), 4), (event(0.25, 2.0), 0)];
        let found = exact(&events);
        assert_eq!(
            (found.knots, found.mixtures),
            (vec![event(0.5, 1.0), event(0.5, 2.0)], vec![(vec![(0, 1.0)], 7), (vec![(1, 1.0)], 1)])
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        // A mixture that is linear in total variation has the larger divergence at every order.
        #[test]
        fn linear_mixture_is_pessimistic(
            ln_low in -4.0f64..1.2, ratio in 0.001f64..1.0, place in 0.0f64..1.0, epsilon in -6.0f64..6.0,
        ) {
            let (low, high) = (exp(ln_low), exp(ln_low + ratio));
            let between = low + place * (high - low);
            let share = variation(low, between) / variation(low, high);
            let mixed = share * divergence(high, epsilon) + (1.0 - share) * divergence(low, epsilon);
            prop_assert!(divergence(between, epsilon) <= mixed + 1e-13, "{low} {between} {high} {epsilon}");
        }

        // Every event counts exactly once, in a mixture of the two knots that enclose it.
        #[test]
        fn every_event_counts_once_between_knots(
            multipliers in prop::collection::vec(0.3f64..9.0, 40..90), rates in prop::collection::vec(1e-4f64..1.0, 40..90),
        ) {
            let pairs = multipliers.iter().zip(&rates);
            let events: Vec<(SampledGaussian, u64)> =
                pairs.map(|(z, q)| (SampledGaussian::new(Rate::at_least(*q).unwrap(), *z).unwrap(), 2)).collect();
            let found = few(&events, Some(1.0));
            let times: u64 = found.mixtures.iter().map(|(_, times)| times).sum();
            prop_assert_eq!(times, 2 * events.len() as u64);
            for (mixture, _) in &found.mixtures {
                let weight: f64 = mixture.iter().map(|(_, weight)| weight).sum();
                prop_assert!((weight - 1.0).abs() < 1e-12 && mixture.len() <= 4);
            }
        }
    }
}
