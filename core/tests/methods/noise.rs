//! The noise of every method: it has the accounted size, and is drawn exactly once.
//!
//! The tests of variance compare `s²/σ²` of 80,000 draws with 1. Its standard error is 0.5 %, and the bound is 6.1 of
//! them (a correct implementation fails each with probability 1e-9). A σ that is off by 3 % moves it by 12.

use crate::harness::{How, Sample, Taken};
use crate::method::{FilterChoice, Method, PLAIN};
use crate::table::{FALLING, FILTERS, NOISES, methods};
use damper_core::accounting::Rate;
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::{Decay, NoiseSchedule};
use std::collections::HashSet;

const DRAWS: usize = 80_000;

/// `(s²/σ² − 1)` in standard errors, for values in units of their σ.
fn excess(draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    assert_eq!(draws.len(), DRAWS);
    (draws.iter().map(|x| x * x).sum::<f64>() / n - 1.0) / (2.0 / n).sqrt()
}

fn has_the_stated_size(draws: &[f64]) -> bool {
    excess(draws).abs() < 6.1
}

/// Fails unless the draws have a standard deviation of 1, or if 3 % more or less would also pass.
fn check(draws: &[f64], what: &dyn std::fmt::Debug) {
    let scaled = |factor: f64| draws.iter().map(|x| x * factor).collect::<Vec<_>>();
    assert!(has_the_stated_size(draws), "{} standard errors: {what:?}", excess(draws));
    assert!(!has_the_stated_size(&scaled(1.03)) && !has_the_stated_size(&scaled(1.0 / 1.03)), "{what:?}");
}

/// `z_t·C_t/B` by the method's declaration. Fails unless the step returns exactly this value.
fn stated(method: &Method, taken: &Taken) -> f64 {
    let std = method.multiplier_at(taken.number) * f64::from(taken.clip) / f64::from(method.expected_batch);
    assert_eq!(taken.noise_std.to_bits(), std.to_bits(), "{method:?}");
    std
}

/// The release before the filter, in units of its expected noise.
fn in_units(method: &Method, taken: &Taken) -> impl Iterator<Item = f64> {
    let std = stated(method, taken);
    taken.released.iter().map(move |x| f64::from(*x) / std)
}

/// Zero gradients at every point, for a few samples or none.
fn zeros(count: u32, dim: usize) -> Vec<Sample> {
    (0..count % 3).map(|_| Sample::constant(vec![0.0; dim])).collect()
}

/// Every fourth method of the table, which includes each choice of every slot.
/// [`every_method_draws_the_noise_of_dp_sgd`] covers the others.
#[test]
fn zero_gradients_release_declared_noise() {
    for method in methods().into_iter().step_by(4) {
        let method = Method { dim: DRAWS / 4, ..method };
        let mut run = method.start::<i64>(4);
        let draws: Vec<f64> = (0..4)
            .flat_map(|t| {
                let taken = run.take(&zeros(t, method.dim), How::Mixed);
                in_units(&method, &taken).collect::<Vec<_>>()
            })
            .collect();
        check(&draws, &method);
    }
}

/// At every step, the integers equal the release of DP-SGD, whose size is tested above, for any `κ` and `γ`, any `k`
/// and `β`, any `a` and `b`.
#[test]
fn filter_settings_never_change_noise() {
    let two = |kappa, gamma| FilterChoice::Kalman(Gain::Constant(kappa), LookAhead::Two { gamma });
    let disk = [0.001, 0.1, 0.5, 0.7, 0.95].into_iter().flat_map(|kappa| {
        let one = FilterChoice::Kalman(Gain::Constant(kappa), LookAhead::One);
        [one, two(kappa, 0.7), two(kappa, 0.05), two(kappa, -1.0), two(kappa, 3.0)]
    });
    let momentum = (1..=8).flat_map(|iterates| {
        [-0.9, 0.1, 0.9, 1.0].into_iter().flat_map(move |beta| {
            [true, false].map(|normalised| FilterChoice::Momentum { iterates, beta, normalised, inner: Some("p4") })
        })
    });
    let doppler = damper_core::filter::SETS.iter().map(|set| FilterChoice::Iir(set.name));
    for (seed, filter) in disk.chain(momentum).chain(doppler).enumerate() {
        let plain = Method { seed: seed as u64, ..PLAIN };
        let method = Method { filter, ..plain };
        let (mut run, mut expected) = (method.start::<i64>(12), plain.start::<i64>(12));
        for t in 0..12 {
            let (taken, expected) = (run.take(&zeros(t, 70), How::Mixed), expected.take(&[], How::Points));
            assert_eq!(method.units(&taken), plain.units(&expected), "{filter:?}, step {t}");
            assert_eq!(stated(&method, &taken).to_bits(), stated(&plain, &expected).to_bits());
        }
    }
}

// Each step of a noise schedule has the declared and charged noise.
#[test]
fn scheduled_noise_matches_charge() {
    let warm = (0.1, 3, Decay::Cosine { steps: 40, floor: 0.01 });
    for learning_rate in [FALLING, warm] {
        for noise in NOISES.iter().chain(&[NoiseSchedule::Matched { exponent: 2.0 }]) {
            let method = Method { noise: *noise, learning_rate, dim: DRAWS, sigma: 20_000, seed: 5, ..PLAIN };
            for t in [0, 1, 2, 20, 39] {
                let mut run = method.resume::<i64>(1000, t, 1);
                let taken = run.take(&[], How::Points);
                assert_eq!(taken.number, t);
                check(&in_units(&method, &taken).collect::<Vec<_>>(), &(noise, t));
                let event = run.step.event_at(t, Rate::ONE).unwrap();
                assert_eq!(event.multiplier().to_bits(), method.multiplier_at(t).to_bits());
            }
        }
    }
}

/// The noise of step `t` has the address of step `t`, and is drawn once. It equals that of DP-SGD at the same σ, for
/// all other settings of the method.
#[test]
fn every_method_draws_the_noise_of_dp_sgd() {
    for method in methods() {
        let mut run = method.start::<i64>(6);
        for t in 0..6 {
            let taken = run.take(&[], How::Points);
            let sigma = method.multiplier_at(t) * f64::from(1u32 << method.bits);
            let plain = Method { sigma: sigma as u32, seed: method.seed, ..PLAIN };
            let expected = plain.resume::<i64>(6, t, 1).take(&[], How::Points);
            assert_eq!(method.units(&taken), plain.units(&expected), "{method:?}");
            stated(&method, &taken);
        }
    }
}

// No method uses a block of noise twice, and blocks are uncorrelated.
#[test]
fn noise_blocks_are_unique() {
    for filter in FILTERS {
        let method = Method { filter: *filter, dim: 4096, ..PLAIN };
        let mut blocks = HashSet::new();
        let mut before: Option<Vec<f64>> = None;
        let mut run = method.start::<i64>(5);
        for _ in 0..5 {
            let taken = run.take(&[], How::Points);
            for block in method.units(&taken).chunks(4) {
                assert!(blocks.insert(block.to_vec()), "noise repeats: {filter:?}");
            }
            let draws: Vec<f64> = in_units(&method, &taken).collect();
            // Six standard errors, against the previous step, the next coordinate, and the next chunk.
            let uncorrelated = |a: &[f64], b: &[f64]| {
                let n = a.len().min(b.len()) as f64;
                a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>().abs() < 6.0 * n.sqrt()
            };
            assert!(uncorrelated(&draws, &draws[1..]) && uncorrelated(&draws, &draws[1024..]));
            assert!(before.as_ref().is_none_or(|before| uncorrelated(&draws, before)));
            assert!(!uncorrelated(&draws, &draws), "the same draws are correlated");
            before = Some(draws);
        }
    }
}

/// The counts' noise comes from a separate stream, and is not a scaled copy of the gradient's.
#[test]
fn count_and_gradient_noise_are_separate() {
    let mut products = vec![];
    for method in methods().into_iter().filter(|method| method.dim >= 20) {
        let mut run = method.start::<i64>(40);
        for _ in 0..40 {
            let taken = run.take(&[], How::Points);
            let grad = in_units(&method, &taken).collect::<Vec<_>>();
            let sigma = if taken.counts.len() == 1 { 2.0 } else { 5.0 };
            products.extend(taken.counts.iter().zip(&grad).map(|(count, grad)| count / sigma * grad));
        }
        if products.len() > 800 {
            break;
        }
    }
    let n = products.len() as f64;
    assert!(n >= 800.0 && products.iter().sum::<f64>().abs() < 6.0 * n.sqrt());
}
