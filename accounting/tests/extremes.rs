//! Extremes in both accountants. Every combination gives an upper bound or an error that names the flag, never NaN, in
//! bounded time and memory.

use damper_accounting::pld::{Neighbours, epsilon, epsilon_lower_bound, of_discrete};
use damper_accounting::{Accountant, AccountingError, CalibrateQuery, EpsilonQuery, Plan, Recorded};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::{RenyiCurve, least_epsilon};

const ACCOUNTANTS: [Accountant; 2] = [Accountant::Rdp, Accountant::Pld];
/// Sampling rates with a privacy cost.
const RATES: [f64; 5] = [5e-324, 1e-12, 1e-4, 1.0 - 1e-15, 1.0];
/// Multipliers with a privacy cost, or too small for any.
const MULTIPLIERS: [f64; 6] = [5e-324, 1e-3, 0.02, 1.0, 1e6, f64::MAX];
/// Numbers of steps with a δ.
const CLAIMS: [(u64, f64); 5] = [(1, 1e-15), (10_000_000, 1e-15), (u64::MAX, 0.5), (3, 1.0 - 1e-12), (7, 5e-324)];
/// Invalid values of a rate, multiplier, δ or ε.
const NOTHING: [f64; 6] = [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Returns true if ε is finite and not negative, so that it can be reported.
fn is_told(epsilon: f64) -> bool {
    epsilon >= 0.0 && epsilon.is_finite()
}

// Extreme queries return a finite bound or an error. PLD is never above RDP.
#[test]
fn extreme_queries_are_finite_or_error() {
    let mut told = 0;
    for sampling_rate in RATES {
        for noise_multiplier in MULTIPLIERS {
            for (steps, delta) in CLAIMS {
                let at = |accountant| {
                    let query = EpsilonQuery {
                        accountant,
                        noise_multiplier,
                        sampling_rate,
                        steps,
                        delta,
                        neighbours: Neighbours::default(),
                        count_noise_multiplier: None,
                        group: None,
                    };
                    let answer = query.answer();
                    match &answer {
                        Ok(answer) => assert!(is_told(answer.epsilon), "{query:?}: {answer:?}"),
                        Err(AccountingError::NothingHolds { .. } | AccountingError::SamplingRate(_)) => {}
                        Err(other) => panic!("{query:?}: {other}"),
                    }
                    answer.map(|answer| answer.epsilon)
                };
                let [renyi, tight] = ACCOUNTANTS.map(at);
                if let (Ok(renyi), Ok(tight)) = (renyi, tight) {
                    told += 1;
                    // The discrete mechanism is accounted at a multiplier smaller by 4e-6.
                    let slack = 2e-5 * renyi + 2e-4;
                    let asked = (sampling_rate, noise_multiplier, steps, delta);
                    assert!(tight <= renyi + slack, "{asked:?}: {tight} {renyi}");
                }
            }
        }
    }
    println!("{told} of {} questions have two bounds", RATES.len() * MULTIPLIERS.len() * CLAIMS.len());
    assert!(told > 60, "{told}");
}

// Extreme events have ordered and finite bounds, for either neighbour relation.
#[test]
fn extreme_events_have_finite_bounds() {
    for rate in [Rate::ZERO, Rate::from_numerator(1).unwrap(), Rate::ONE] {
        for (at, multiplier) in MULTIPLIERS.into_iter().step_by(2).enumerate() {
            let event = SampledGaussian::new(rate, multiplier).unwrap();
            let neighbours = [Neighbours::AddOrRemove, Neighbours::Replace][at % 2];
            for (steps, delta) in CLAIMS {
                let events = [(event, steps), (SampledGaussian::new(Rate::ONE, 1e3).unwrap(), 1)];
                let upper = epsilon(&events, neighbours, delta).unwrap();
                let lower = epsilon_lower_bound(&events, neighbours, delta).unwrap();
                assert!(0.0 <= lower && lower <= upper && lower.is_finite(), "{events:?} {delta}: {lower} {upper}");
                assert!(of_discrete(&events, neighbours, delta).unwrap() >= 0.0, "{events:?} {delta}");
                let mut curve = RenyiCurve::EMPTY;
                events.iter().for_each(|(event, times)| curve.add(event, *times));
                let at_orders = curve.epsilon(delta).unwrap().epsilon;
                let between = least_epsilon(&events, delta).unwrap().epsilon;
                assert!(0.0 <= between && between <= at_orders, "{events:?} {delta}: {between} {at_orders}");
            }
        }
    }
}

// Both accountants reject an invalid number and name its parameter.
#[test]
fn invalid_number_names_parameter() {
    let right = EpsilonQuery {
        accountant: Accountant::Pld,
        noise_multiplier: 1.0,
        sampling_rate: 0.01,
        steps: 10,
        delta: 1e-5,
        neighbours: Neighbours::default(),
        count_noise_multiplier: None,
        group: None,
    };
    for accountant in ACCOUNTANTS {
        let right = EpsilonQuery { accountant, ..right };
        assert!(right.answer().is_ok());
        let refused = |query: EpsilonQuery, flag: &str| {
            let message = query.answer().unwrap_err().to_string();
            assert!(message.starts_with(flag), "{query:?}: {message}");
        };
        for nothing in NOTHING {
            refused(EpsilonQuery { noise_multiplier: nothing, ..right }, "`noise_multiplier`");
            refused(EpsilonQuery { sampling_rate: nothing, ..right }, "`sampling_rate`");
            refused(EpsilonQuery { delta: nothing, ..right }, "`delta`");
            let query = CalibrateQuery {
                accountant,
                epsilon: Some(nothing),
                delta: 1e-5,
                noise_multiplier: None,
                sampling_rate: Some(0.01),
                samples: None,
                batch_size: None,
                steps: Some(10),
                grid_bits: None,
            };
            let message = query.answer().unwrap_err().to_string();
            assert!(message.starts_with("`epsilon`"), "{nothing}: {message}");
        }
        refused(EpsilonQuery { sampling_rate: 1.1, ..right }, "`sampling_rate`");
        refused(EpsilonQuery { delta: 1.0, ..right }, "`delta`");
        refused(EpsilonQuery { steps: 0, ..right }, "`steps`");
    }
}

// Calibration meets an extreme budget from below, or returns an error.
#[test]
fn extreme_budgets_are_met_or_rejected() {
    for accountant in ACCOUNTANTS {
        for epsilon in [5e-324, 1.0, f64::MAX] {
            for (steps, delta) in [(10_000_000, 1e-15), (1, 5e-324)] {
                let query = CalibrateQuery {
                    accountant,
                    epsilon: Some(epsilon),
                    delta,
                    noise_multiplier: None,
                    sampling_rate: Some(1e-3),
                    samples: None,
                    batch_size: None,
                    steps: Some(steps),
                    grid_bits: None,
                };
                let others = [
                    CalibrateQuery { noise_multiplier: Some(1.0), steps: None, ..query },
                    CalibrateQuery { noise_multiplier: Some(1.0), sampling_rate: None, ..query },
                    CalibrateQuery {
                        noise_multiplier: Some(1.0),
                        sampling_rate: None,
                        samples: Some(u64::MAX),
                        ..query
                    },
                    CalibrateQuery { noise_multiplier: Some(1.0), sampling_rate: None, samples: Some(8), ..query },
                ];
                for query in std::iter::once(query).chain(others) {
                    match query.answer() {
                        Ok(answer) => {
                            assert!(is_told(answer.epsilon) && answer.epsilon <= epsilon, "{query:?}: {answer:?}")
                        }
                        Err(error) => assert!(error.to_string().starts_with('`'), "{query:?}: {error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn calibration_meets_extreme_budgets() {
    let mut met = 0;
    for (epsilon, sampling_rate, steps) in [
        (1e-3, 1e-4, 100),
        (1e-3, 0.01, 10),
        (1e-3, 1.0, 1000),
        (0.1, 1e-3, 100_000),
        (30.0, 0.01, 1),
        (1e3, 1.0, 1),
        (1e3, 0.004, 1000),
        (1e4, 0.1, 100),
        (1e5, 1e-3, 10_000),
        (1e6, 1.0, 1),
        (1e6, 0.01, 1000),
        (1e6, 0.5, 20),
        (1e6, 0.004, 14_000),
        (1e6, 1e-3, 100_000),
    ] {
        for accountant in ACCOUNTANTS {
            let query = CalibrateQuery {
                accountant,
                epsilon: Some(epsilon),
                delta: 1e-5,
                noise_multiplier: None,
                sampling_rate: Some(sampling_rate),
                samples: None,
                batch_size: None,
                steps: Some(steps),
                grid_bits: None,
            };
            let answer = match query.answer() {
                Ok(answer) => answer,
                // At tiny budgets the Rényi orders are too small.
                Err(AccountingError::TooSmall { least, .. }) if accountant == Accountant::Rdp && epsilon < 0.01 => {
                    assert!(least > epsilon);
                    continue;
                }
                Err(error) => panic!("{query:?}: {error}"),
            };
            assert!(answer.epsilon <= epsilon && answer.epsilon >= 0.99 * epsilon, "{query:?}: {answer:?}");
            // One per cent less noise costs more than the target.
            let less = EpsilonQuery {
                accountant,
                noise_multiplier: 0.99 * answer.noise_multiplier,
                sampling_rate,
                steps,
                delta: 1e-5,
                neighbours: Neighbours::default(),
                count_noise_multiplier: None,
                group: None,
            };
            assert!(less.answer().unwrap().epsilon > epsilon, "{query:?}: {answer:?}");
            met += 1;
        }
    }
    assert!(met >= 25, "{met}");
}

// Schedules and records of ten million steps have a finite cost.
#[test]
fn ten_million_steps_have_a_cost() {
    let rate = Rate::at_least(1e-4).unwrap();
    let plan = Plan::new(rate, (0..10_000_000).map(|t| 0.8 + f64::from(t % 1000) / 500.0), None).unwrap();
    for accountant in ACCOUNTANTS {
        assert!(is_told(plan.epsilon(accountant, 1e-15).unwrap().epsilon));
        let times = [(1.0, 5_000_000), (1.5, 5_000_000), (2.0, 1)]
            .map(|(multiplier, times)| (SampledGaussian::new(rate, multiplier).unwrap(), times));
        assert!(is_told(Recorded::new(accountant, 1e-15, &times).epsilon(accountant, 1e-15).unwrap().epsilon));
        // More events than can be counted.
        let endless = Recorded::new(accountant, 1e-15, &times.map(|(event, _)| (event, u64::MAX)));
        assert_eq!(endless.steps(), u64::MAX);
        assert!(endless.epsilon(accountant, 1e-15).map_or(true, |price| is_told(price.epsilon)));
    }
}

/// `Φ(x)`.
fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x / libm::sqrt(2.0))
}

/// δ of a Gaussian shifted by `mu` standard deviations (Balle, Wang, "Improving the Gaussian mechanism for differential
/// privacy", 2018).
fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    phi(mu / 2.0 - epsilon / mu) - libm::exp(epsilon) * phi(-mu / 2.0 - epsilon / mu)
}

// δ at ε = 0, at the largest ε, and in between, is that of the Gaussian. At ε = 0 it is 2Φ(1/2σ) − 1.
#[test]
fn delta_is_right_at_both_ends() {
    for sigma in [0.2, 0.5, 1.0, 2.0, 4.0, 20.0, 300.0] {
        let plan = Plan::constant(Rate::ONE, sigma, None, 1).unwrap();
        let record = Recorded::new(Accountant::Pld, 1e-5, plan.events());
        let total = 2.0 * phi(0.5 / sigma) - 1.0;
        for epsilon in [0.0, 1e-9, 0.01, 0.5, 3.0, 30.0, 1e3, 1e300] {
            let found = record.delta(Accountant::Pld, epsilon).unwrap();
            let exact = if epsilon < 1e3 { gaussian_delta(1.0 / sigma, epsilon).max(1e-15) } else { 1e-15 };
            assert!(found >= exact * (1.0 - 1e-9), "{sigma} {epsilon}: {found:e} {exact:e}");
            // ε is within a thousandth or 1.5e-5 of the exact value, which is a larger part of δ.
            let most = gaussian_delta(1.0 / sigma, (epsilon - 1e-3 * epsilon - 2e-5).max(0.0)).max(1e-15);
            if epsilon < 1e3 {
                assert!(found <= 1.005 * most.max(exact) + 3e-5, "{sigma} {epsilon}: {found:e} {most:e}");
            } else {
                assert_eq!(found, 1e-15, "{sigma} {epsilon}");
            }
        }
        let zero = record.delta(Accountant::Pld, 0.0).unwrap();
        assert!(zero >= total && zero <= 1.003 * total + 1e-5, "{sigma}: {zero} {total}");
    }
    // By Rényi divergences ε is 0 above some δ too. By any accountant δ falls as ε grows.
    for accountant in ACCOUNTANTS {
        let plan = Plan::constant(Rate::at_least(0.01).unwrap(), 1.0, None, 100).unwrap();
        let record = Recorded::new(accountant, 1e-5, plan.events());
        let deltas: Vec<f64> =
            [0.0, 1e-6, 0.1, 1.0, 5.0].into_iter().map(|at| record.delta(accountant, at).unwrap()).collect();
        assert!(deltas.windows(2).all(|pair| pair[0] >= pair[1] * (1.0 - 2e-3)) && deltas[0] < 0.9, "{deltas:?}");
        // The δ holds, and a smaller δ does not.
        for (epsilon, delta) in [0.0, 1e-6, 0.1, 1.0, 5.0].into_iter().zip(deltas) {
            let at = |delta| record.epsilon(accountant, delta).unwrap().epsilon;
            assert!(at(delta) <= epsilon && (delta == 1e-15 || at(delta * 0.99) > epsilon), "{epsilon}: {delta:e}");
        }
    }
}

/// The multiplier at which the Gaussian has this ε and δ.
fn gaussian_multiplier(epsilon: f64, delta: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e9f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if gaussian_delta(1.0 / middle, epsilon) > delta { low = middle } else { high = middle }
    }
    high
}

// The multiplier of one release between the extremes: a δ at which slightly more noise has ε = 0, and a large ε.
#[test]
fn multiplier_is_right_at_both_ends() {
    let query = |epsilon, delta| CalibrateQuery {
        accountant: Accountant::Pld,
        epsilon: Some(epsilon),
        delta,
        noise_multiplier: None,
        sampling_rate: Some(1.0),
        samples: None,
        batch_size: None,
        steps: Some(1),
        grid_bits: None,
    };
    for (epsilon, delta) in [(0.01, 0.3), (0.05, 0.1), (0.1, 0.45), (1.0, 0.5), (0.02, 1e-3), (50.0, 1e-5), (90.0, 0.2)]
    {
        let found = query(epsilon, delta).answer().unwrap();
        let exact = gaussian_multiplier(epsilon, delta);
        let share = found.noise_multiplier / exact;
        assert!((0.9999..1.02).contains(&share), "{epsilon} {delta}: {} {exact}", found.noise_multiplier);
    }
    // Steps, rate and batch at their extremes: a single step, every sample, all samples.
    let base = CalibrateQuery { noise_multiplier: Some(5.0), ..query(1.0, 1e-5) };
    let one = gaussian_multiplier(1.0, 1e-5) / 5.0;
    let steps = CalibrateQuery { steps: None, noise_multiplier: Some(5.0 * one * 1.01), ..base }.answer().unwrap();
    assert_eq!(steps.steps, 1, "{steps:?}");
    let four = CalibrateQuery { steps: None, noise_multiplier: Some(5.0 * one * 2.01), ..base }.answer().unwrap();
    assert_eq!(four.steps, 4, "{four:?}");
    let rate = CalibrateQuery { sampling_rate: None, noise_multiplier: Some(5.0 * one * 1.01), ..base };
    assert_eq!(rate.answer().unwrap().sampling_rate, 1.0);
    let batch = CalibrateQuery { samples: Some(77), ..rate }.answer().unwrap();
    assert_eq!(batch.batch_size, Some(77));
    let tiny = CalibrateQuery { noise_multiplier: Some(0.05), ..rate }.answer().unwrap();
    // A sample that is drawn with a probability below δ costs nothing, so the rate is about δ.
    assert!(tiny.sampling_rate >= 1e-5 * 0.999 && tiny.sampling_rate < 1.1e-5, "{tiny:?}");
}
