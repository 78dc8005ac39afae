//! Charges: exactly one for each step, before any release, under any interruption.

use crate::harness::{How, Lost, Run, Sample, bits};
use crate::method::{Method, PLAIN, ThresholdChoice};
use crate::table::{FILTERS, Noise, batches, methods};
use damper_core::accounting::renyi::{divergence_at_integer, epsilon_at};
use damper_core::accounting::{Rate, RenyiFilter, SampledGaussian};
use damper_core::error::OpenError;
use damper_core::noise::LEAST_SIGMA;
use std::collections::HashSet;

// Every method charges, writes and releases exactly once per step, until its budget is spent.
#[test]
fn charges_events_and_releases_match_steps() {
    for method in methods() {
        let mut run = method.start::<i64>(7);
        let counting = u32::from(method.threshold != ThresholdChoice::Fixed);
        for (t, samples) in batches(11, 7, method.dim).iter().enumerate() {
            let t = t as u32;
            let taken = run.take(samples, How::Points);
            assert_eq!((taken.number, taken.releases), (t, (1, counting)), "one release of each kind: {method:?}");
            assert_eq!(
                (run.ledger.charged_steps(), run.ledger.store().count, run.ledger.store().last.unwrap().paid),
                (t + 1, t + 1, t + 1)
            );
        }
        // The budget is spent: the call releases nothing, moves nothing, and writes nothing.
        let before = bits(&run.params);
        assert!(matches!(run.try_take(&[], How::Points), Err(OpenError::BudgetSpent)));
        assert_eq!((bits(&run.params), run.ledger.charged_steps(), run.ledger.store().count), (before, 7, 7));
        assert!(run.sum_is_wiped());
    }
}

// State of a wrong length is an error before anything is charged.
#[test]
fn rejects_wrong_state_before_charge() {
    for method in methods().into_iter().filter(|method| format!("{:?}", method.filter) != "Identity") {
        for len in [0, method.dim - 1, method.dim + 1] {
            let mut run = method.start::<i64>(3);
            run.resize_sum(len);
            // Filters, layers or optimizers with state of the gradient's length detect it. Methods without such state
            // cannot.
            if let Err(error) = run.try_take(&[], How::Points) {
                assert!(matches!(error, OpenError::Call(_)));
                assert_eq!((run.ledger.charged_steps(), run.ledger.store().count), (0, 0));
            }
        }
    }
}

/// A failed write may or may not be durable, so the step and its noise are lost.
#[test]
fn uncertain_charge_releases_nothing() {
    for method in methods().into_iter().step_by(3) {
        let (mut run, mut filter) = (method.start::<i64>(5), RenyiFilter::new(8, 50.0, 1e-5).unwrap());
        let first = run.take(&[], How::Points);
        let before = bits(&run.params);
        run.ledger.store_mut().fails = true;
        assert_eq!(run.try_take(&[], How::Points).err(), Some(OpenError::Store(Lost)));
        assert_eq!(run.try_take_chosen(&[], 1.0, Rate::ONE, &mut filter).err(), Some(OpenError::Store(Lost)));
        assert!(bits(&run.params) == before && run.sum_is_wiped());
        run.ledger.store_mut().fails = false;
        assert_eq!((first.number, run.take(&[], How::Points).number, run.ledger.store().last.unwrap().paid), (0, 2, 3));
        assert_eq!(filter.charged_steps(), 1);
        assert!(filter.spent() > 0.0);
    }
}

/// The power fails at any moment: before a step, between charge and release, or after it. The memory is lost, and the
/// store is not. Some ledgers reserve steps.
#[test]
fn power_loss_keeps_charges_and_fresh_noise() {
    for (seed, filter) in FILTERS.iter().enumerate() {
        let method = Method { filter: *filter, ..PLAIN };
        let (budget, mut moments) = (60, Noise::new(seed as u64));
        let (mut blocks, mut released, mut paid) = (HashSet::new(), 0, 0);
        for _ in 0..200 {
            let prepay = 1 + moments.below(4) as u32;
            let mut run: Run<i64> = method.resume(budget, paid, prepay);
            for _ in 0..moments.below(4) {
                match run.try_take(&[], How::Points) {
                    Ok(taken) => {
                        released += 1;
                        for block in method.units(&taken).chunks(5) {
                            assert!(blocks.insert(block.to_vec()), "noise repeats");
                        }
                        // The durable record after a cut covers every release.
                        let covered = run.ledger.store().last.map_or(paid, |record| record.paid);
                        assert!(taken.number < covered && covered <= budget);
                    }
                    Err(error) => assert!(matches!(error, OpenError::BudgetSpent)),
                }
            }
            if moments.below(2) == 0 {
                run.abandon();
            }
            let persisted = run.ledger.store().last.map_or(paid, |record| record.paid);
            assert!(persisted >= paid && released <= persisted);
            paid = persisted;
        }
        assert_eq!(paid, budget);
        assert!(released > 10, "{released}");
    }
}

/// The same with adaptive noise. The spent divergence never falls.
#[test]
fn spent_divergence_survives_power_loss() {
    let (order, epsilon, delta, rate) = (12, 2.0, 1e-5, Rate::at_most(0.05).unwrap());
    let (mut spent, mut paid, mut moments, mut numbers) = (0.0, 0, Noise::new(1), HashSet::new());
    for _ in 0..60 {
        let mut filter = RenyiFilter::resume(order, epsilon, delta, paid, spent).unwrap();
        let mut run = PLAIN.start::<i64>(0);
        for _ in 0..moments.below(4) {
            let factor = f64::from(1.5 + moments.signed());
            if let Ok(taken) = run.try_take_chosen(&[], factor, rate, &mut filter) {
                assert!(numbers.insert(taken.number), "an address is used once");
            }
        }
        if let Some(record) = run.ledger.store().last {
            assert!(record.divergence > spent && record.paid > paid && record.divergence <= filter.budget());
            (spent, paid) = (record.divergence, record.paid);
        }
    }
    assert!(numbers.len() > 20 && epsilon_at(spent, f64::from(order), delta) <= epsilon);
}

/// An adversary that observes all releases chooses each step's noise, from valid and invalid numbers. Accepted steps
/// stay within the budget, and rejected steps release nothing.
#[test]
fn adaptive_multipliers_stay_in_budget() {
    let (order, epsilon, delta, rate) = (10, 3.0, 1e-5, Rate::at_most(0.1).unwrap());
    for method in methods().into_iter().step_by(5) {
        let mut filter = RenyiFilter::new(order, epsilon, delta).unwrap();
        // A ledger of zero steps, because this test does not use it.
        let mut run = method.start::<i64>(0);
        let mut choice = Noise::new(2);
        let (mut admitted, mut refused, mut spent) = (0, 0, 0.0);
        let mut last = 1f32;
        for t in 0..150 {
            let factor = match choice.below(6) {
                0 => [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300][choice.below(6)],
                1 => 0.3,
                // Depends on the previous release.
                2 => f64::from(last.abs()) * 4.0,
                _ => f64::from(1.0 + 0.9 * choice.signed()),
            };
            let (params, paid, writes, before) =
                (bits(&run.params), filter.charged_steps(), run.ledger.store().count, filter.spent().to_bits());
            let samples = vec![Sample::constant(choice.vector(method.dim, 1.0)); t % 4];
            match run.try_take_chosen(&samples, factor, rate, &mut filter) {
                Ok(taken) => {
                    admitted += 1;
                    last = taken.released[0];
                    assert_eq!(
                        (taken.number, filter.charged_steps(), run.ledger.store().count),
                        (CHOSEN + paid, paid + 1, writes + 1)
                    );
                    // The accounted event is the event that ran.
                    let multiplier = taken.noise_std * f64::from(method.expected_batch) / f64::from(taken.clip);
                    let multiplier = (multiplier * 65_536.0).round() / 65_536.0;
                    let event = SampledGaussian::new(rate, multiplier).unwrap();
                    let event = match taken.counts.len() {
                        0 => event,
                        1 => event.and(2.0).unwrap(),
                        _ => event.and(5.0).unwrap(),
                    };
                    spent += divergence_at_integer(&event, order);
                    assert!(spent <= filter.budget() && (spent - filter.spent()).abs() < 1e-9 * spent);
                }
                Err(error) => {
                    refused += 1;
                    // A factor that is invalid, or gives too small a sigma, is rejected before accounting.
                    let sigma = (f64::from(method.sigma) * factor).ceil();
                    let has_price = factor.is_finite() && factor > 0.0 && sigma >= f64::from(LEAST_SIGMA);
                    match error {
                        OpenError::BudgetSpent => assert!(has_price, "{factor}"),
                        error => assert!(matches!(error, OpenError::Call(_)) && !has_price, "{factor}"),
                    }
                    let after =
                        (bits(&run.params), filter.charged_steps(), run.ledger.store().count, filter.spent().to_bits());
                    assert_eq!((params, paid, writes, before), after);
                    assert!(run.sum_is_wiped());
                }
            }
        }
        assert!(admitted > 3 && refused > 3, "{admitted} {refused}");
        assert!(epsilon_at(spent, f64::from(order), delta) <= epsilon);
        assert_eq!(run.ledger.charged_steps(), 0);
    }
}

/// The number of the first step that is charged to a filter.
const CHOSEN: u32 = 1 << 31;

// A factor that is not a finite number above 0 is an error before anything is charged.
#[test]
fn invalid_factor_is_error_before_charge() {
    let (mut run, mut filter) = (PLAIN.start::<i64>(0), RenyiFilter::new(8, 1e6, 1e-5).unwrap());
    for factor in [f64::NAN, -f64::NAN, 0.0, -0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(
            matches!(run.try_take_chosen(&[], factor, Rate::ONE, &mut filter), Err(OpenError::Call(_))),
            "{factor}"
        );
        assert_eq!((filter.charged_steps(), run.ledger.store().count), (0, 0));
    }
    assert!(run.try_take_chosen(&[], 1.0, Rate::ONE, &mut filter).is_ok());
}

/// `α → κα`, `σ → σ/κ` again, through the other API. The ledger's step has another number, so it has other noise.
#[test]
fn adaptive_factor_equals_own_mechanism() {
    let half = Method { sigma: 4000, ..PLAIN };
    let whole = Method { sigma: 8000, ..PLAIN };
    let filters = || RenyiFilter::new(8, 1e6, 1e-5).unwrap();
    let (mut first, mut second) = (filters(), filters());
    let (mut a, mut b, mut declared) = (half.start::<i64>(0), whole.start::<i64>(0), whole.start::<i64>(5));
    for samples in batches(1, 5, 70) {
        let doubled = a.try_take_chosen(&samples, 2.0, Rate::ONE, &mut first).unwrap();
        assert_eq!(doubled, b.try_take_chosen(&samples, 1.0, Rate::ONE, &mut second).unwrap());
        let declared = declared.take(&samples, How::Points);
        assert_eq!((doubled.clip, doubled.noise_std, doubled.lr), (declared.clip, declared.noise_std, declared.lr));
        assert_ne!(doubled.released, declared.released, "steps of a filter and of a ledger share no noise");
    }
    assert_eq!(first.spent().to_bits(), second.spent().to_bits());
}
