//! Tests of the dominating pair of a replaced sample. References: closed forms, quadrature of two and three draws,
//! recorded bounds of an independent generator, and pairs in the plane that are not collinear.

use damper_accounting::pld::{Neighbours, epsilon, epsilon_lower_bound, of_discrete};
use damper_accounting::{Accountant, EpsilonQuery, Recorded};
use damper_core::accounting::event::{Rate, SampledGaussian};
use libm::{erfc, exp, log};
use proptest::prelude::*;

fn event(q: f64, sigma: f64) -> SampledGaussian {
    SampledGaussian::new(Rate::at_least(q).unwrap(), sigma).unwrap()
}

fn upper(events: &[(SampledGaussian, u64)], delta: f64) -> f64 {
    epsilon(events, Neighbours::Replace, delta).unwrap()
}

fn lower(events: &[(SampledGaussian, u64)], delta: f64) -> f64 {
    epsilon_lower_bound(events, Neighbours::Replace, delta).unwrap()
}

/// The documented tolerance: half a per cent above the exact ε.
fn tolerance(epsilon: f64) -> f64 {
    f64::max(0.005 * epsilon, 1e-4)
}

fn phi(x: f64) -> f64 {
    0.5 * erfc(-x / 2f64.sqrt())
}

fn density(x: f64) -> f64 {
    exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt()
}

/// One draw: `(1−q)N(0) + qN(a)` against `(1−q)N(0) + qN(−a)`.
#[derive(Clone, Copy)]
struct Draw {
    q: f64,
    a: f64,
}

impl Draw {
    fn loss(&self, x: f64) -> f64 {
        let part = |sign: f64| 1.0 - self.q + self.q * exp(sign * self.a * x - self.a * self.a / 2.0);
        log(part(1.0)) - log(part(-1.0))
    }

    /// δ at any ε, in closed form: the loss grows with x.
    fn delta(&self, epsilon: f64) -> f64 {
        let (mut low, mut high) = (-80.0, 80.0);
        for _ in 0..90 {
            let middle = (low + high) / 2.0;
            if self.loss(middle) < epsilon { low = middle } else { high = middle }
        }
        let mass = |mean: f64| (1.0 - self.q) * phi(-high) + self.q * phi(mean - high);
        mass(self.a) - exp(epsilon) * mass(-self.a)
    }

    /// δ of `steps` such draws, by the trapezoidal rule over all draws but one.
    fn composed(&self, steps: u32, epsilon: f64) -> f64 {
        if steps == 1 {
            return self.delta(epsilon);
        }
        let width: f64 = if steps == 2 { 1.0 / 32.0 } else { 1.0 / 8.0 };
        let reach = ((9.0 + self.a) / width) as i32;
        let term = |j: i32| {
            let x = f64::from(j) * width;
            let mass = (1.0 - self.q) * density(x) + self.q * density(x - self.a);
            width * mass * self.composed(steps - 1, epsilon - self.loss(x))
        };
        (-reach..=reach).map(term).sum()
    }

    fn epsilon(&self, steps: u32, delta: f64) -> f64 {
        let (mut low, mut high) = (0.0, 60.0);
        for _ in 0..if steps == 3 { 24 } else { 40 } {
            let middle = (low + high) / 2.0;
            if self.composed(steps, middle) > delta { low = middle } else { high = middle }
        }
        high
    }
}

#[test]
fn few_draws_agree_with_quadrature() {
    for (q, sigma, steps, delta) in [
        (1.0, 1.0, 1, 1e-5),
        (0.3, 0.6, 1, 1e-6),
        (0.01, 0.5, 1, 1e-5),
        (1e-3, 0.4, 1, 1e-8),
        (0.5, 2.0, 2, 1e-4),
        (0.05, 0.8, 2, 1e-6),
        (0.9, 1.5, 2, 1e-5),
        (0.01, 0.5, 2, 1e-7),
        (0.2, 1.0, 3, 1e-4),
    ] {
        let truth = Draw { q, a: 1.0 / sigma }.epsilon(steps, delta);
        let events = [(event(q, sigma), u64::from(steps))];
        let (low, high) = (lower(&events, delta), upper(&events, delta));
        assert!(
            low <= truth * (1.0 + 1e-6) && truth <= high * (1.0 + 1e-6),
            "{q} {sigma} {steps}: {low} {truth} {high}"
        );
        assert!(
            high <= truth + tolerance(truth) && low >= truth - tolerance(truth),
            "{q} {sigma} {steps}: {low} {truth} {high}"
        );
    }
}

#[test]
fn full_batch_is_a_gaussian_at_2c() {
    for (sigma, steps, delta) in [(4.0, 5, 1e-6), (1.0, 1, 1e-3), (40.0, 1000, 1e-9), (300.0, 7, 1e-5)] {
        let mu = 2.0 * (steps as f64).sqrt() / sigma;
        let at = |epsilon: f64| phi(mu / 2.0 - epsilon / mu) - exp(epsilon) * phi(-mu / 2.0 - epsilon / mu);
        let (mut low, mut high) = (0.0, 100.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if at(middle) > delta { low = middle } else { high = middle }
        }
        let found = upper(&[(event(1.0, sigma), steps)], delta);
        assert!(found >= high * (1.0 - 1e-9) && found <= high + tolerance(high), "{sigma} {steps}: {found} {high}");
    }
}

#[test]
fn matches_independent_generator() {
    let lines = include_str!("../src/vectors/replace.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let [numerator, sigma, steps, delta, least, most] = fields[..] else { panic!("{line}") };
        let rate = Rate::from_numerator(numerator as u64).unwrap();
        let events = [(SampledGaussian::new(rate, sigma).unwrap(), steps as u64)];
        let found = upper(&events, delta);
        assert!(found >= least && found <= least + tolerance(least), "{line}: {found}");
        if count % 4 == 0 {
            let low = lower(&events, delta);
            assert!(low <= most && found - low <= tolerance(low), "{line}: {low} {found}");
        }
        count += 1;
    }
    assert!(count >= 40, "{count}");
}

#[test]
fn sampling_amplifies_a_replaced_sample() {
    // Twice the sensitivity under add/remove adjacency, the previous bound.
    for (q, sigma, steps, delta, share) in
        [(1e-4, 0.6, 1000, 1e-6, 0.3), (0.001, 0.7, 10_000, 1e-6, 0.3), (0.004, 1.0, 3000, 1e-5, 0.5)]
    {
        let twice = epsilon_lower_bound(&[(event(q, sigma / 2.0), steps)], Neighbours::AddOrRemove, delta).unwrap();
        let found = upper(&[(event(q, sigma), steps)], delta);
        println!("{q} {sigma} {steps}: {found}, at twice the sensitivity {twice}");
        assert!(found < share * twice, "{q} {sigma}: {found} {twice}");
        // It is never cheaper than removal, which replaces a sample by a null sample.
        let out = epsilon_lower_bound(&[(event(q, sigma), steps)], Neighbours::AddOrRemove, delta).unwrap();
        assert!(found >= out, "{q} {sigma}: {found} {out}");
    }
}

#[test]
fn a_schedule_costs_between_its_ends() {
    let schedule: Vec<(SampledGaussian, u64)> =
        (0..2000).map(|t| (event(0.005, 0.8 + 1e-4 * f64::from(t)), 1)).collect();
    let found = upper(&schedule, 1e-5);
    // Rounded to a few multipliers, each computed separately.
    let coarse = |up: bool| -> Vec<(SampledGaussian, u64)> {
        let at = |k: usize| 0.8 + 1e-4 * f64::from(100 * (k + usize::from(up)) as u32);
        (0..20).map(|k| (event(0.005, at(k)), 100)).collect()
    };
    let (low, high) = (lower(&coarse(true), 1e-5), upper(&coarse(false), 1e-5));
    assert!(low <= found && found <= high * 1.002 && high <= 1.03 * low, "{low} {found} {high}");
}

#[test]
fn record_and_query_agree() {
    let query = EpsilonQuery {
        accountant: Accountant::Pld,
        noise_multiplier: 0.9,
        sampling_rate: 0.01,
        steps: 300,
        delta: 1e-5,
        neighbours: Neighbours::Replace,
        count_noise_multiplier: None,
        group: None,
    };
    let events = [(event(0.01, 0.9), 300)];
    let answered = query.answer().unwrap().epsilon;
    let recorded = Recorded::new(Accountant::Pld, 1e-5, &events).epsilon_of_replaced(1e-5).unwrap().epsilon;
    assert_eq!(answered, recorded);
    assert_eq!(answered, of_discrete(&events, Neighbours::Replace, 1e-5).unwrap());
}

/// δ of two draws that are neighbours in the plane, by quadrature: `(1−q)N(0) + qN(g)` against `(1−q)N(0) + qN(h)`.
fn plane(q: f64, g: [f64; 2], h: [f64; 2], epsilon: f64) -> f64 {
    let width = 1.0 / 8.0;
    let at = |i: i32, j: i32| {
        let (x, y) = (f64::from(i) * width, f64::from(j) * width);
        let part = |m: [f64; 2]| (1.0 - q) * density(x) * density(y) + q * density(x - m[0]) * density(y - m[1]);
        (part(g) - exp(epsilon) * part(h)).max(0.0) * width * width
    };
    (-80..=80).map(|i| (-80..=80).map(|j| at(i, j)).sum::<f64>()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn opposite_gradients_cost_most(
        q in 0.01f64..1.0, a in 0.2f64..2.0, shorter in 0.0f64..1.0, other in 0.0f64..1.0, angle in 0.0f64..std::f64::consts::PI,
        epsilon in -2.0f64..3.0,
    ) {
        let (g, h) = ([shorter * a, 0.0], [other * a * angle.cos(), other * a * angle.sin()]);
        let truth = Draw { q, a }.delta(epsilon);
        // The error of quadrature at a kink is the square of its width.
        prop_assert!(plane(q, g, h, epsilon) <= truth + 1e-4, "{q} {g:?} {h:?} {epsilon}");
        prop_assert!(plane(q, h, g, epsilon) <= truth + 1e-4, "{q} {g:?} {h:?} {epsilon}");
    }

    #[test]
    fn counts_cost_at_most_collinear_pair(
        q in 0.01f64..1.0, gradient in 0.6f64..3.0, counts in 0.6f64..3.0, epsilon in 0.0f64..3.0,
    ) {
        // The worst gradients are opposite, and the counts orthogonal, in the plane of the two shifts.
        let (near, apart) = (1.0 / gradient.powi(2) + 1.0 / counts.powi(2), 4.0 / gradient.powi(2) + 2.0 / counts.powi(2));
        let cosine = 1.0 - apart / (2.0 * near);
        let a = near.sqrt();
        let truth = plane(q, [a, 0.0], [a * cosine, a * (1.0 - cosine * cosine).sqrt()], epsilon);
        prop_assume!(truth > 1e-3);
        let query = EpsilonQuery {
            accountant: Accountant::Pld,
            noise_multiplier: gradient,
            sampling_rate: q,
            steps: 1,
            delta: truth - 2e-4,
            neighbours: Neighbours::Replace,
            count_noise_multiplier: Some(counts),
            group: None,
        };
        prop_assert!(query.answer().unwrap().epsilon >= epsilon, "{query:?}");
        let plain = EpsilonQuery { delta: truth, ..query }.answer().unwrap().epsilon;
        prop_assert!(plain <= 1.15 * epsilon + 0.1, "{query:?}: {plain} {epsilon}");
    }
}
