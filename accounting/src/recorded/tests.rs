//! Tests of records of runs.

use super::super::delta::{DELTA_RATIO, LEAST_DELTA};
use super::super::event::canonical::CHANGING;
use super::super::event::privacy_cost::SCHEDULE;
use super::*;
use crate::{Plan, Truncation};
use damper_core::accounting::renyi::least_epsilon;
use serde_json::json;

/// Parses this file as a record.
fn read(file: &serde_json::Value) -> Result<Recorded, String> {
    serde_json::from_str(&file.to_string()).map_err(|error| error.to_string())
}

/// A record with these draws at this rate.
fn listed(numerator: u64, draws: &[(f64, u64)]) -> serde_json::Value {
    let draw = |(multiplier, times): &(f64, u64)| json!({ "sampling_rate_numerator": numerator, "noise_multiplier": multiplier, "times": times });
    json!({ "delta": 1e-5, "accountant": "pld", "events": draws.iter().map(draw).collect::<Vec<_>>() })
}

// Recorded events cost the same as their plan after a round trip through JSON.
#[test]
fn cost_survives_serialization() {
    let rate = Rate::of(256, 50_000).unwrap();
    for (multipliers, joint) in
        [(vec![1.1; 300], None), ((0..40).map(|t| 0.9 + 0.01 * f64::from(t)).collect(), Some(5.0))]
    {
        let plan = Plan::new(rate, multipliers, joint).unwrap();
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            let recorded = Recorded::new(accountant, 1e-5, plan.events());
            let file = serde_json::to_string(&recorded).unwrap();
            let read: Recorded = serde_json::from_str(&file).unwrap();
            assert_eq!(read, recorded);
            let (ours, plan) = (read.epsilon(accountant, 1e-5).unwrap(), plan.epsilon(accountant, 1e-5).unwrap());
            assert_eq!(ours, plan);
        }
    }
}

#[test]
fn changing_rates_are_priced_each_as_it_is() {
    let event = |of: u64, sigma: f64| SampledGaussian::new(Rate::of(1, of).unwrap(), sigma).unwrap();
    let events = [(event(100, 1.0), 300), (event(10, 2.0), 200)];
    let recorded = Recorded::new(Accountant::Rdp, 1e-5, &events);
    let (found, exact) = (recorded.epsilon(Accountant::Rdp, 1e-5).unwrap(), least_epsilon(&events, 1e-5).unwrap());
    assert_eq!((found.epsilon, found.order), (exact.epsilon, Some(exact.order)));
    assert_eq!((recorded.largest_rate(), recorded.smallest_multiplier()), (events[1].0.rate(), 1.0));
    assert_eq!((recorded.events(), recorded.steps(), recorded.first(0, 0).largest_rate()), (500, 500, Rate::ZERO));
    // In any order, and split into several entries.
    let parts = [(event(10, 2.0), 150), (event(100, 1.0), 300), (event(10, 2.0), 50)];
    assert_eq!(Recorded::new(Accountant::Rdp, 1e-5, &parts).epsilon(Accountant::Rdp, 1e-5), Ok(found));
}

/// A schedule of any length is accounted by its plan's knots. In a record with more draws than the limit, each draw is
/// accounted separately.
#[test]
fn long_records_are_priced_without_a_plan() {
    let rate = Rate::of(1, 1000).unwrap();
    let record = |times: u64| {
        let events: Vec<_> =
            (0..40).map(|t| (SampledGaussian::new(rate, 5.0 + 0.002 * f64::from(t)).unwrap(), times)).collect();
        let found = Recorded::new(Accountant::Rdp, 1e-5, &events).epsilon(Accountant::Rdp, 1e-5).unwrap();
        (found.epsilon, least_epsilon(&events, 1e-5).unwrap().epsilon)
    };
    let (found, each) = record(100);
    assert!(found > each && found < 1.001 * each, "{found} {each}");
    let (found, each) = record(SCHEDULE / 40 + 1);
    assert_eq!(found, each);
}

#[test]
fn what_a_record_says_is_in_its_file() {
    let (private, simulation) = (RunKind::Private, RunKind::Simulation);
    assert_eq!((private.to_string(), simulation.to_string()), ("private".into(), "simulation".into()));
    assert_eq!(RunKind::NotPrivate.to_string(), "not private");
    let file = serde_json::to_value(recorded().with_kind(private)).unwrap();
    assert_eq!((file.get("sampler"), &file["run"]), (None, &serde_json::json!("private")));
    let coins = serde_json::from_value::<Recorded>(file).unwrap();
    assert_eq!((coins.sampler, coins.run), (Sampler::Poisson, Some(private)));
}

/// The events of the record do not matter.
#[test]
fn no_epsilon_of_a_run_not_private() {
    let event = (SampledGaussian::new(Rate::of(1, 10).unwrap(), 5.0).unwrap(), 3);
    let of = |run| Recorded::new(Accountant::Pld, 1e-5, &[event]).with_kind(run);
    assert!(of(RunKind::Private).epsilon(Accountant::Pld, 1e-5).is_ok());
    let not_private = of(RunKind::NotPrivate);
    for found in [
        not_private.epsilon(Accountant::Pld, 1e-5),
        not_private.epsilon(Accountant::Rdp, 1e-5),
        not_private.epsilon_of_replaced(1e-5),
        not_private.first(1, 0).epsilon(Accountant::Pld, 1e-5),
        not_private.first(0, 0).epsilon(Accountant::Pld, 1e-5),
    ] {
        assert_eq!(found, Err(AccountingError::NotPrivate));
    }
    assert_eq!(not_private.delta(Accountant::Pld, 1.0), Err(AccountingError::NotPrivate));
    let file = serde_json::to_value(&not_private).unwrap();
    assert_eq!(file["run"], "not private");
    assert_eq!(serde_json::from_value::<Recorded>(file).unwrap(), not_private);
}

#[test]
fn first_events_are_those_in_order() {
    let event = |multiplier, times| (Event::gaussian(multiplier).unwrap(), times);
    let all = [event(1.0, 3), event(2.0, 5), event(3.0, 2)];
    let recorded = recorded().with(&RunParts { draws: &all, held_out: &all, ..RunParts::default() });
    for (events, exact) in [
        (0, vec![]),
        (2, vec![event(1.0, 2)]),
        (3, vec![event(1.0, 3)]),
        (7, vec![event(1.0, 3), event(2.0, 4)]),
        (99, all.to_vec()),
    ] {
        assert_eq!(
            recorded.first(events, 99).parts(),
            RunParts { draws: &exact, held_out: &all, ..RunParts::default() }
        );
        assert_eq!(
            recorded.first(99, events).parts(),
            RunParts { draws: &all, held_out: &exact, ..RunParts::default() }
        );
    }
}

#[test]
fn a_damaged_record_is_refused() {
    let epsilon =
        |rate, multiplier, times| read(&listed(rate, &[(multiplier, times)])).unwrap().epsilon(Accountant::Pld, 1e-5);
    assert!(epsilon(1 << 50, 1.0, 5).is_ok());
    assert_eq!(epsilon(1 << 50, 1.0, 0), Err(AccountingError::Steps));
    assert_eq!(epsilon(0, 1.0, 5), Err(AccountingError::SamplingRate(0.0)));
    assert_eq!(epsilon(1 << 50, -1.0, 5), Err(AccountingError::NoiseMultiplier(-1.0)));
    // No event has such a rate, so reading the file fails.
    for above in [3 * Rate::DENOMINATOR / 2, Rate::DENOMINATOR + 1, u64::MAX] {
        assert!(read(&listed(above, &[(1.0, 5)])).unwrap_err().contains("`sampling_rate`"));
    }
    assert!(
        read(&listed(1 << 54, &[(1.0, 5)]))
            .unwrap_err()
            .starts_with("`sampling_rate` 2: must be above 0 and at most 1")
    );
    let changing = |count: u64| {
        let one = |k: u64| (Event::draw(true, Rate::from_numerator((1 << 45) + k).unwrap(), 1.0), 5);
        let draws: Vec<_> = (0..count).map(one).collect();
        Recorded::new(Accountant::Pld, 1e-5, &[]).with(&RunParts { draws: &draws, ..RunParts::default() })
    };
    assert!(changing(1000).epsilon(Accountant::Pld, 1e-5).is_ok());
    let many = changing(CHANGING as u64 + 1).epsilon(Accountant::Pld, 1e-5);
    assert_eq!(many, Err(AccountingError::TooMany(CHANGING + 1)));
}

/// Every key of a file maps to a part of the event, and is written in the same order. No other key is read.
#[test]
fn files_are_flat_and_keep_their_bytes() {
    let full = concat!(
        r#"{"delta":0.00001,"accountant":"pld","run":"private","sampler":"cyclic-poisson","steps":40,"#,
        r#""truncation":{"samples":1437,"most":200},"#,
        r#""correlation":{"matrix":{"banded":[1.0,0.5]},"steps":40,"separation":4,"participations":10,"parameters":9,"grid_bits":20,"sigma":9999999},"#,
        r#""search":{"candidates":"geometric:0.1","others":[{"events":[{"sampling_rate_numerator":7,"noise_multiplier":2.5,"times":3}]},"#,
        r#"{"events":[],"held_out":[{"sampling_rate_numerator":9007199254740992,"noise_multiplier":2.5,"times":1}]}]},"#,
        r#""events":[{"sampling_rate_numerator":9007199254740992,"noise_multiplier":2.5,"times":3},"#,
        r#"{"sampling_rate_numerator":9007199254740992,"noise_multiplier":2.5,"times":0},{"sampling_rate_numerator":0,"noise_multiplier":-0.5,"times":1}],"#,
        r#""held_out":[{"sampling_rate_numerator":9007199254740992,"noise_multiplier":3.5,"times":1},{"sampling_rate_numerator":5,"noise_multiplier":3.5,"times":1}],"#,
        r#""normalize":{"sampling_rate_numerator":9007199254740992,"noise_multiplier":30.5,"times":1},"#,
        r#""non_finite":{"sampling_rate_numerator":9007199254740992,"noise_multiplier":40.5,"times":1}}"#
    );
    let whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(full).unwrap();
    for (key, _) in &whole {
        let mut without = whole.clone();
        without.shift_remove(key);
        let text = serde_json::to_string(&without).unwrap();
        match &key[..] {
            "delta" | "accountant" | "events" => assert!(read(&without.into()).unwrap_err().contains("missing field")),
            _ => assert_eq!(serde_json::to_string(&read(&without.into()).unwrap()).unwrap(), text),
        }
    }
    for sampler in ["poisson", "shuffled", "cyclic-poisson", "min-separation"] {
        let text = full.replace("cyclic-poisson", sampler).replace("\"sampler\":\"poisson\",", "");
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Recorded>(&text).unwrap()).unwrap(), text);
    }
    let other = full.replace("\"steps\":40,\"trunc", "\"step\":40,\"trunc");
    assert!(
        serde_json::from_str::<Recorded>(&other)
            .unwrap_err()
            .to_string()
            .starts_with("unknown field `step`, expected one of `delta`")
    );
}

fn recorded() -> Recorded {
    let event = SampledGaussian::new(Rate::of(128, 1437).unwrap(), 1.6).unwrap();
    Recorded::new(Accountant::Pld, 1e-5, &[(event, 113)])
}

// The delta at an epsilon and the epsilon at a delta are inverse to each other, within 2 %.
#[test]
fn delta_and_epsilon_are_inverse() {
    let ramp: Vec<f64> = (0..30).map(|t| 0.9 + 0.01 * f64::from(t)).collect();
    let schedule = Plan::new(Rate::of(256, 50_000).unwrap(), ramp, None).unwrap();
    for recorded in [recorded(), Recorded::new(Accountant::Pld, 1e-5, schedule.events())] {
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            for delta in [1e-3, 1e-5, 1e-9] {
                let epsilon = recorded.epsilon(accountant, delta).unwrap().epsilon;
                let found = recorded.delta(accountant, epsilon).unwrap();
                assert!((found / delta - 1.0).abs() < 0.02, "{accountant} {delta:e}: {found:e}");
                assert!(recorded.epsilon(accountant, found).unwrap().epsilon <= epsilon);
            }
        }
    }
    assert_eq!(recorded().delta(Accountant::Pld, 1e3).unwrap(), LEAST_DELTA);
    assert!(recorded().delta(Accountant::Pld, 0.0).unwrap() > 0.2);
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(recorded().delta(Accountant::Pld, bad).is_err());
    }
}

/// Bisection finds the least δ at which ε is small enough.
#[test]
fn delta_is_the_least_within_a_thousandth() {
    let steep = Recorded::new(Accountant::Rdp, 1e-5, &[(SampledGaussian::new(Rate::ONE, 40.0).unwrap(), 9)]);
    for (recorded, epsilons) in [(recorded(), [0.5, 1.2, 4.0]), (steep, [0.02, 0.2, 0.4])] {
        for epsilon in epsilons {
            let holds = |ln: f64| recorded.epsilon(Accountant::Rdp, libm::exp(ln)).unwrap().epsilon <= epsilon;
            let (mut low, mut high) = (libm::log(LEAST_DELTA), (1.0f64 - 1e-9).ln());
            for _ in 0..40 {
                let middle = (low + high) / 2.0;
                if holds(middle) { high = middle } else { low = middle }
            }
            let found = recorded.delta(Accountant::Rdp, epsilon).unwrap();
            let above = libm::log(found) - high;
            assert!(above > -1e-9 && above < 1.001 * DELTA_RATIO, "{epsilon}: {found:e}, {above:e} above");
        }
    }
}

// At ε = 0, δ is the total variation of the pair: `q·(2Φ(√T/(2σ)) − 1)` for T draws at rate 1 (Balle and Wang, theorem
// 8), or for one draw at rate q. At any ε of T draws at rate 1: `Φ(1/(2s) − εs) − e^ε·Φ(−1/(2s) − εs)` with `s = σ/√T`.
#[test]
fn delta_meets_closed_forms() {
    let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    let gaussian = |s: f64, epsilon: f64| phi(0.5 / s - epsilon * s) - libm::exp(epsilon) * phi(-0.5 / s - epsilon * s);
    for multiplier in [0.5, 1.1, 8.0, 1000.0] {
        for steps in [1u64, 9] {
            let s = multiplier / (steps as f64).sqrt();
            let recorded =
                Recorded::new(Accountant::Pld, 1e-5, &[(SampledGaussian::new(Rate::ONE, multiplier).unwrap(), steps)]);
            for epsilon in [0.0, 0.01, 3.0] {
                let (exact, found) = (gaussian(s, epsilon), recorded.delta(Accountant::Pld, epsilon).unwrap());
                let least = exact.max(LEAST_DELTA);
                assert!(
                    found >= exact * (1.0 - 1e-12),
                    "σ {multiplier}, T {steps}, ε {epsilon}: {found} below {exact}"
                );
                assert!(found <= least * 1.01, "σ {multiplier}, T {steps}, ε {epsilon}: {found} above {exact}");
            }
        }
        let rate = Rate::of(1, 10).unwrap();
        let recorded = Recorded::new(Accountant::Pld, 1e-5, &[(SampledGaussian::new(rate, multiplier).unwrap(), 1)]);
        let (exact, found) = (0.1 * gaussian(multiplier, 0.0), recorded.delta(Accountant::Pld, 0.0).unwrap());
        assert!((exact * (1.0 - 1e-12)..=exact * 1.01).contains(&found), "σ {multiplier}: {found} beside {exact}");
    }
}

#[test]
fn epsilon_is_of_the_part_that_costs_more() {
    let training = recorded();
    let release = |multiplier, times| [(Event::gaussian(multiplier).unwrap(), times)];
    let epsilon = |recorded: &Recorded| recorded.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
    for (multiplier, held_out_is_more) in [(0.8, true), (50.0, false)] {
        let both = training.with(&RunParts { held_out: &release(multiplier, 3), ..training.parts() });
        let alone = both.of_held_out().unwrap();
        assert_eq!(alone.parts().draws, both.parts().held_out);
        let (a, b) = (epsilon(&training), epsilon(&alone));
        assert_eq!((epsilon(&both), b > a), (a.max(b), held_out_is_more));
        assert_eq!(both.of_training(), training);
        let (a, b) = [&both, &alone].map(|one| one.epsilon_of_replaced(1e-5).unwrap().epsilon).into();
        assert!(a >= b);
        let read: Recorded = serde_json::from_str(&serde_json::to_string(&both).unwrap()).unwrap();
        assert_eq!(read, both);
        // A damaged release is an error, and not a release without cost.
        let broken = training.with(&RunParts { held_out: &release(multiplier, 0), ..training.parts() });
        assert!(broken.epsilon(Accountant::Pld, 1e-5).is_err());
    }
    assert!(training.of_held_out().is_none());
}

// A release before the draws costs the same as in its plan, for either accountant. It counts even without a draw.
#[test]
fn release_is_composed_with_draws() {
    let release = SampledGaussian::new(Rate::ONE, 6.0).unwrap();
    let ramp: Vec<f64> = (0..200).map(|t| 0.9 + 0.003 * f64::from(t)).collect();
    for multipliers in [vec![1.1; 300], ramp] {
        let plan = Plan::new(Rate::of(256, 50_000).unwrap(), multipliers, None).unwrap().with_release(Some(release));
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            let alone = Recorded::new(accountant, 1e-5, plan.events());
            let both = alone.with(&RunParts { normalize: Some(release.multiplier()), ..alone.parts() });
            let read: Recorded = serde_json::from_str(&serde_json::to_string(&both).unwrap()).unwrap();
            let found = read.epsilon(accountant, 1e-5).unwrap();
            assert_eq!((&read, found), (&both, plan.epsilon(accountant, 1e-5).unwrap()));
            assert!(found.epsilon > alone.epsilon(accountant, 1e-5).unwrap().epsilon);
            // The same with one more event, with every event computed separately: the slow reference.
            let listed = Event::compose([Event::gaussian(release.multiplier()).unwrap(), alone.event().clone()]);
            let exact = listed.epsilon(accountant, 1e-5).unwrap().epsilon;
            assert!((found.epsilon / exact - 1.0).abs() < 1e-3, "{} {exact}", found.epsilon);
            let first = both.first(0, 0).epsilon(accountant, 1e-5).unwrap();
            assert_eq!(first, Recorded::new(accountant, 1e-5, &[(release, 1)]).epsilon(accountant, 1e-5).unwrap());
            let mut spent = plan.spent(accountant, 1e-5).unwrap();
            assert!((spent.least_epsilon() / first.epsilon - 1.0).abs() < 1e-9);
            plan.events().iter().for_each(|(event, times)| (0..*times).for_each(|_| spent.count(event)));
            assert_eq!(spent.least_epsilon(), found.epsilon);
        }
    }
    for key in ["normalize", "non_finite"] {
        let with = |numerator: u64, multiplier: f64, times: u64| {
            let release =
                json!({ "sampling_rate_numerator": numerator, "noise_multiplier": multiplier, "times": times });
            let mut file = serde_json::to_value(recorded()).unwrap();
            file[key] = release;
            read(&file)
        };
        let whole = with(1 << 53, 6.0, 1).unwrap();
        assert!(whole.epsilon(Accountant::Pld, 1e-5).is_ok() && whole.epsilon_of_replaced(1e-5).is_ok());
        assert!(with(1 << 53, -6.0, 1).unwrap().epsilon(Accountant::Pld, 1e-5).is_err());
        for damaged in [with(1 << 53, 6.0, 0), with(1 << 53, 6.0, 2), with(1 << 50, 6.0, 1), with(1 << 54, 6.0, 1)] {
            assert!(damaged.is_err());
        }
    }
}

/// δ of Gaussian releases with these multipliers at `epsilon`, by the formula of Balle and Wang (2018, theorem 8) for
/// one Gaussian of the summed inverse variances.
fn delta_of_gaussians(multipliers: &[f64], epsilon: f64) -> f64 {
    let mu = multipliers.iter().map(|z| 1.0 / (z * z)).sum::<f64>().sqrt();
    let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    below(mu / 2.0 - epsilon / mu) - epsilon.exp() * below(-mu / 2.0 - epsilon / mu)
}

// Two releases before draws at a rate of 1 cost the value of the Gaussian formula for all of them, and never less.
#[test]
fn two_releases_cost_summed_precision() {
    let event = |multiplier| SampledGaussian::new(Rate::ONE, multiplier).unwrap();
    for (one, two, steps, draws) in [(6.0, 20.0, 8.0, 4), (3.0, 3.0, 5.0, 1), (40.0, 1.5, 9.0, 7)] {
        let recorded = Recorded::new(Accountant::Pld, 1e-5, &[(event(steps), draws)]);
        let of = |normalize, non_finite| recorded.with(&RunParts { normalize, non_finite, ..recorded.parts() });
        let (recorded, turned) = (of(Some(one), Some(two)), of(Some(two), Some(one)));
        let all = [vec![one, two], vec![steps; draws as usize]].concat();
        let priced = recorded.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        let (at, above) = (delta_of_gaussians(&all, priced), delta_of_gaussians(&all, 0.999 * priced));
        assert!(at <= 1e-5 && above > 1e-5, "{priced}: {at:e}, {above:e}");
        let renyi = recorded.epsilon(Accountant::Rdp, 1e-5).unwrap().epsilon;
        assert!(renyi >= priced && renyi < 1.2 * priced, "{renyi} {priced}");
        // Both releases count: without either, the cost is lower. Their order does not matter.
        assert_eq!(turned.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon, priced);
        for left in [of(None, Some(two)), of(Some(one), None)] {
            assert!(left.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon < priced);
        }
        // They count without draws, and in every other privacy cost.
        let first = recorded.first(0, 0).epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        let at = delta_of_gaussians(&[one, two], first);
        assert!(at <= 1e-5 && delta_of_gaussians(&[one, two], 0.999 * first) > 1e-5, "{first}: {at:e}");
        let alone = of(None, None);
        assert!(recorded.epsilon_of_replaced(1e-5).unwrap().epsilon > alone.epsilon_of_replaced(1e-5).unwrap().epsilon);
        let as_one = of(None, Some(event(one).and(two).unwrap().multiplier()));
        assert_eq!(as_one.event().divergences().unwrap(), recorded.event().divergences().unwrap());
    }
}

// The epsilon of the first events grows up to the epsilon of all events.
#[test]
fn prefix_epsilon_grows_to_total() {
    let whole = recorded();
    let each: Vec<f64> = [1, 20, 80, 113, 500]
        .map(|events| whole.first(events, 0).epsilon(Accountant::Pld, 1e-5).unwrap().epsilon)
        .into();
    assert!(each.windows(2).all(|pair| pair[0] <= pair[1]), "{each:?}");
    assert_eq!(each[3], whole.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon);
    assert_eq!(each[4], each[3]);
    assert_eq!(whole.first(0, 0).epsilon(Accountant::Pld, 1e-5), Err(AccountingError::Steps));
}

// Replacing a sample costs at least 1.5 times as much as removing it.
#[test]
fn replacement_costs_more_than_removal() {
    let (out, replaced) = (recorded().epsilon(Accountant::Pld, 1e-5), recorded().epsilon_of_replaced(1e-5));
    assert!(replaced.unwrap().epsilon > 1.5 * out.unwrap().epsilon);
}

// One epoch of shuffled batches is one event, without amplification by sampling.
#[test]
fn shuffled_epoch_is_one_unsampled_event() {
    let draws = Event::draws(Sampler::Shuffled, &[(SampledGaussian::new(Rate::ONE, 8.0).unwrap(), 10)]);
    let parts = RunParts { draws: &draws, ..RunParts::default() };
    let shuffled = recorded().with(&parts).with_sampler(Sampler::Shuffled, 113);
    assert_eq!((shuffled.steps(), shuffled.events()), (113, 10));
    let epochs = Plan::constant(Rate::ONE, 8.0, None, 10).unwrap().epsilon(Accountant::Pld, 1e-5).unwrap();
    assert_eq!(shuffled.epsilon(Accountant::Pld, 1e-5).unwrap(), epochs);
    let file = serde_json::to_string(&shuffled).unwrap();
    assert!(file.contains("\"sampler\":\"shuffled\",\"steps\":113"), "{file}");
    assert_eq!(serde_json::from_str::<Recorded>(&file).unwrap(), shuffled);

    let amplified = recorded().with_sampler(Sampler::Shuffled, 113);
    assert!(matches!(amplified.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::SamplingRate(_))));
}

// Truncated batches add to the cost, and the truncation survives a round trip through JSON.
#[test]
fn truncation_is_charged_and_serialized() {
    let cut = |most| {
        let truncation = Some(Truncation { samples: 1437, most });
        recorded().with(&RunParts { truncation, ..recorded().parts() })
    };
    let epsilon = |recorded: Recorded| recorded.epsilon(Accountant::Pld, 1e-5).map(|priced| priced.epsilon);
    let plain = epsilon(recorded()).unwrap();
    assert!(epsilon(cut(200)).unwrap() > plain);
    assert!(epsilon(cut(1437)).unwrap() == plain);
    assert!(epsilon(cut(128)).is_err());
    let file = serde_json::to_string(&cut(200)).unwrap();
    assert_eq!(serde_json::from_str::<Recorded>(&file).unwrap(), cut(200));
}
