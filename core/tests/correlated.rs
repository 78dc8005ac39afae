//! Correlated noise through the public API: recorded vectors, restarts, errors, and the noise of the sum.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

#[path = "correlated/looking.rs"]
mod looking;
#[path = "correlated/memory.rs"]
mod memory;

use damper_core::accounting::{Ledger, Rate, RenyiFilter, Volatile};
use damper_core::clip::FlatL2;
use damper_core::error::{CallError, OpenError};
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{
    AnyCorrelation, Banded, Blt, ChaCha20, CorrelatedGaussian, CorrelatedState, Correlation, Lambda, NoiseWord,
    Participation,
};
use damper_core::optimizer::{Adam, AdamState, Begin, Optimizer, Sgd, SgdState};
use damper_core::private::{Mechanism, Released, SumWord};
use damper_core::schedule::{Constant, Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::step::{PrivateStep, Slots, StepConfig as _, StepState};
use damper_core::threshold::{Fixed, Quantile};
use looking::listened;
use std::str::FromStr;

const VECTORS: &str = include_str!("../src/vectors/correlated.tsv");
const BITS: u32 = 8;

type Correlated<K> = CorrelatedGaussian<i64, K, Vec<NoiseWord>>;
type Step<K> = PrivateStep<Identity, Sgd, Correlated<K>>;
type State<K> = StepState<Vec<SumWord<i64>>, (), SgdState<[f32; 0]>, (), CorrelatedState<K, Vec<NoiseWord>>>;

fn mechanism<K: Correlation>(correlation: K, sigma: u32, run: Participation, dim: usize) -> Correlated<K> {
    CorrelatedGaussian::new(Grid::new(BITS).unwrap(), sigma, correlation, run, dim as u32).unwrap()
}

fn slots<M: Mechanism>(mechanism: M) -> Slots<Identity, Sgd, M> {
    Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(f32::from(1u16 << BITS)),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: 1,
    }
}

fn words(count: usize) -> Vec<NoiseWord> {
    (0..count).map(|_| NoiseWord::ZERO).collect()
}

/// A step whose parameters, from zero, become the negated released integers.
fn step<K: Correlation>(mechanism: Correlated<K>) -> Step<K> {
    PrivateStep::new(slots(mechanism)).unwrap()
}

fn state<K: Correlation>(correlation: K, dim: usize) -> State<K> {
    with(CorrelatedState::new(words(dim * correlation.words())), dim)
}

fn with<K: Correlation>(noise: CorrelatedState<K, Vec<NoiseWord>>, dim: usize) -> State<K> {
    StepState::new(vec![SumWord::ZERO; dim], (), SgdState { momentum: [] }, ()).with_noise(noise)
}

/// The release of step `number`, in grid units, without any sample.
fn released<K: Correlation>(step: &Step<K>, state: &mut State<K>, number: u32, dim: usize, seed: u64) -> Vec<i64> {
    let steps = step.slots().mechanism.participation().steps();
    let mut ledger = Ledger::resume(Volatile, steps, number);
    let mut params = vec![0f32; dim];
    let open = step.open(state, &mut ledger).unwrap();
    open.finish(&mut params, &ChaCha20::<2>::simulation(seed)).unwrap();
    params.iter().map(|param| -*param as i64).collect()
}

fn list<T: FromStr>(cell: &str) -> Vec<T> {
    cell.split(' ').map(|number| number.parse().unwrap_or_else(|_| panic!("{number}"))).collect()
}

/// One row of the vectors: the parts of the privacy cost, and the noise of one coordinate.
fn play<K: Correlation>(correlation: K, row: &[&str]) {
    let number = |at: usize| row[at].parse::<u32>().unwrap();
    let run = Participation::new(number(2), number(3), number(4)).unwrap();
    let (sigma, seed, coordinate) = (number(7), row[8].parse().unwrap(), number(9) as usize);
    let dim = coordinate + 1;
    let sensitivity: f64 = row[5].parse().unwrap();
    let found = correlation.sensitivity(run);
    assert!(found >= sensitivity && found <= sensitivity * (1.0 + 1e-11), "{row:?}: {found}");
    // The multiplier is σ/(S·Δ + R), rounded down.
    let mechanism = mechanism(correlation, sigma, run, dim);
    let rounding = row[6].parse::<f64>().unwrap() * (f64::from(run.steps()) * dim as f64).sqrt();
    let clip = sensitivity * f64::from(1u32 << BITS);
    let multiplier = f64::from(sigma) / (clip + rounding);
    let found = mechanism.event().unwrap();
    assert!(found.rate() == Rate::ONE && found.multiplier() <= multiplier, "{row:?}: {found:?} {multiplier}");
    assert!(found.multiplier() >= multiplier * (1.0 - 1e-11), "{row:?}: {found:?} {multiplier}");
    assert!((mechanism.rounding_share() - rounding / (clip + rounding)).abs() < 1e-10);
    let (step, mut state) = (step(mechanism), state(correlation, dim));
    for (number, noise) in list::<u32>(row[10]).into_iter().zip(list::<i64>(row[11])) {
        assert_eq!(released(&step, &mut state, number, dim, seed)[coordinate], noise, "{row:?} step {number}");
    }
}

fn numbers<const N: usize>(cell: &str) -> [f64; N] {
    many(cell).try_into().unwrap()
}

fn many(cell: &str) -> Vec<f64> {
    list::<u32>(cell).into_iter().map(|units| f64::from(units) / f64::from(1u32 << 30)).collect()
}

#[test]
fn noise_and_price_equal_the_vectors() {
    let mut played = [0; 3];
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<&str> = line.split('\t').collect();
        let parts: Vec<&str> = row[1].split(" ; ").collect();
        let count = parts[0].split(' ').count();
        match row[0] {
            "blt" => play(AnyCorrelation::blt(&many(parts[0]), &many(parts[1])).unwrap(), &row),
            "banded" => play(AnyCorrelation::banded(&many(parts[0])).unwrap(), &row),
            _ => {}
        }
        match (row[0], count) {
            ("lambda", 2) => {
                let fraction: Vec<u32> = list(parts[0]);
                let lambda = Lambda::new(fraction[0], fraction[1]).unwrap();
                play(lambda, &row);
                play(AnyCorrelation::from(lambda), &row);
                played[0] += 1;
            }
            ("blt", 1) => play(Blt::<1>::new(numbers(parts[0]), numbers(parts[1])).unwrap(), &row),
            ("blt", 2) => play(Blt::<2>::new(numbers(parts[0]), numbers(parts[1])).unwrap(), &row),
            ("blt", 3) => play(Blt::<3>::new(numbers(parts[0]), numbers(parts[1])).unwrap(), &row),
            ("blt", 4) => {
                play(Blt::<4>::new(numbers(parts[0]), numbers(parts[1])).unwrap(), &row);
                played[1] += 1;
            }
            ("banded", 2) => play(Banded::<2>::new(numbers(parts[0])).unwrap(), &row),
            ("banded", 4) => {
                play(Banded::<4>::new(numbers(parts[0])).unwrap(), &row);
                played[2] += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(played, [9, 3, 3]);
}

fn blt() -> Blt<2> {
    Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381]).unwrap()
}

fn run() -> Participation {
    Participation::new(1000, 100, 10).unwrap()
}

/// A step that is opened and dropped releases nothing, and the next begins at zeros, like a run that starts there. So
/// does a step on buffers that another state has advanced past, or on those of another mechanism.
fn restarts<K: Correlation>(correlation: K) {
    let dim = 3;
    let mechanism = mechanism(correlation, 5000, run(), dim);
    let step = step(mechanism);
    let fresh = |from: u32, to: u32| {
        let mut state = state(correlation, dim);
        (from..to).map(|number| released(&step, &mut state, number, dim, 4)).collect::<Vec<_>>()
    };
    let mut kept = state(correlation, dim);
    for number in 0..3 {
        released(&step, &mut kept, number, dim, 4);
    }
    // A lost step: charged, opened, dropped.
    drop(step.open(&mut kept, &mut Ledger::resume(Volatile, 1000, 3)).unwrap());
    for (number, noise) in (4..6).zip(fresh(4, 6)) {
        assert_eq!(released(&step, &mut kept, number, dim, 4), noise);
    }
    // Stale buffers: the step number is right, but other steps were released since.
    let mut other = state(correlation, dim);
    released(&step, &mut other, 6, dim, 4);
    assert_eq!(released(&step, &mut kept, 7, dim, 4), fresh(7, 8)[0]);
    // In sequence they differ from fresh buffers, so the checks above can fail.
    assert_ne!(released(&step, &mut kept, 8, dim, 4), fresh(8, 9)[0]);
    // Buffers of a mechanism with another privacy cost.
    let larger = PrivateStep::new(slots(self::mechanism(correlation, 5001, run(), dim))).unwrap();
    let mut own = state(correlation, dim);
    assert_eq!(released(&larger, &mut kept, 9, dim, 4), released(&larger, &mut own, 9, dim, 4));
}

#[test]
fn gaps_and_stale_buffers_begin_at_zeros() {
    restarts(Lambda::new(15, 4).unwrap());
    restarts(blt());
    restarts(Banded::<3>::new([1.0, 0.7, 0.5]).unwrap());
}

/// A state that is rebuilt from the key continues with the same bits as one that never stopped, and returns the same
/// standard deviation of its noise.
fn rebuilds<K: Correlation>(correlation: K) {
    // More than a chunk of coordinates.
    let dim = 1030;
    let mechanism = mechanism(correlation, 5000, run(), dim);
    let step = step(mechanism);
    let mut whole = state(correlation, dim);
    let rows: Vec<_> = (0..9).map(|number| released(&step, &mut whole, number, dim, 4)).collect();
    for from in [1, 6] {
        let mut noise = CorrelatedState::new(words(dim * correlation.words()));
        mechanism.rebuild(&mut noise, &ChaCha20::<2>::simulation(4), from).unwrap();
        let mut state = with(noise, dim);
        for number in from..9 {
            assert_eq!(released(&step, &mut state, number, dim, 4), rows[number as usize], "{correlation:?} {from}");
        }
        // From zeros they differ, so the check can fail.
        let mut zeros = self::state(correlation, dim);
        assert_ne!(released(&step, &mut zeros, from, dim, 4), rows[from as usize]);
    }
    let mut short = CorrelatedState::<K, _>::new(words(dim * correlation.words() + 1));
    assert!(mechanism.rebuild(&mut short, &ChaCha20::<2>::simulation(4), 1).is_err());
}

#[test]
fn rebuilt_buffers_equal_kept_ones() {
    rebuilds(Lambda::new(15, 4).unwrap());
    rebuilds(blt());
    rebuilds(Banded::<3>::new([1.0, 0.7, 0.5]).unwrap());
    rebuilds(AnyCorrelation::from(Lambda::new(15, 4).unwrap()));
    rebuilds(AnyCorrelation::blt(&blt().theta(), &blt().omega()).unwrap());
    rebuilds(AnyCorrelation::banded(&[1.0, 0.7, 0.5]).unwrap());
    assert!(AnyCorrelation::blt(&[0.5; 5], &[0.1; 5]).is_err() && AnyCorrelation::blt(&[0.5], &[]).is_err());
    assert!(AnyCorrelation::blt(&[], &[]).is_err() && AnyCorrelation::banded(&[1.0]).is_err());
}

// A recording has the exact integers of the correlation, and accepts no others.
#[test]
fn recorded_integers_are_the_correlation() {
    let all = [
        AnyCorrelation::from(Lambda::new(15, 4).unwrap()),
        AnyCorrelation::blt(&[0.9], &[0.9]).unwrap(),
        AnyCorrelation::blt(&blt().theta(), &blt().omega()).unwrap(),
        AnyCorrelation::blt(&[0.9999, 0.99, 0.9, 0.5], &[0.02, 0.05, 0.1, 0.2]).unwrap(),
        // Lowered scales: these decays have no finite binary digits.
        AnyCorrelation::blt(&[1.0 / 3.0], &[1.0 / 3.0]).unwrap(),
        AnyCorrelation::banded(&[1.0, 0.7, 0.5]).unwrap(),
        AnyCorrelation::banded(&[1.0; 256]).unwrap(),
    ];
    for correlation in all {
        let mut units = Vec::new();
        let kind = correlation.recorded(|unit| units.push(unit));
        assert_eq!(AnyCorrelation::from_recorded(kind, &units), Ok(correlation));
        for other in (0..=3).filter(|other| *other != kind) {
            assert_ne!(AnyCorrelation::from_recorded(other, &units).ok(), Some(correlation));
        }
        let fewer = AnyCorrelation::from_recorded(kind, &units[..units.len() - 1]);
        assert!(fewer.is_err() || kind == 2, "{correlation:?}");
        for at in 0..units.len() {
            let mut changed = units.clone();
            changed[at] ^= 1 << 31;
            assert!(AnyCorrelation::from_recorded(kind, &changed).is_err(), "{correlation:?} {at}");
        }
        units.resize(257, 1);
        assert!(AnyCorrelation::from_recorded(kind, &units).is_err());
    }
    for (kind, units) in
        [(0, &[][..]), (1, &[]), (2, &[]), (2, &[1 << 30]), (2, &[1 << 29, 1]), (1, &[1 << 29, (1 << 29) + 1])]
    {
        assert!(AnyCorrelation::from_recorded(kind, units).is_err(), "{kind} {units:?}");
    }
}

/// Errors occur before anything is charged.
#[test]
fn unpriced_uses_are_refused() {
    let mechanism = mechanism(blt(), 5000, run(), 3);
    let step = step(mechanism);
    let mut state = state(blt(), 3);
    let mut longer = Ledger::volatile(1001);
    let refused = OpenError::Call(CallError::Order("a ledger of more steps than correlated noise was priced for"));
    assert_eq!(step.open(&mut state, &mut longer).err(), Some(refused));
    assert_eq!(longer.charged_steps(), 0);
    let mut filter = RenyiFilter::new(8, 3.0, 1e-5).unwrap();
    assert!(step.open_adaptive(&mut state, 1.0, Rate::ONE, &mut filter, &mut Volatile).is_err());
    assert_eq!(filter.charged_steps(), 0);
    assert!(step.event_at(0, Rate::ONE).is_err() && step.event_adaptive(1.0, Rate::ONE).is_err());
    // Memory of another size.
    let mut short = StepState::new(vec![SumWord::ZERO; 3], (), SgdState { momentum: [] }, ())
        .with_noise(CorrelatedState::<Blt<2>, _>::new(words(5)));
    assert!(step.open(&mut short, &mut Ledger::volatile(10)).is_err());
    let mut wide = StepState::new(vec![SumWord::ZERO; 4], (), SgdState { momentum: [] }, ())
        .with_noise(CorrelatedState::<Blt<2>, _>::new(words(8)));
    assert!(step.open(&mut wide, &mut Ledger::volatile(10)).is_err());
    // Counts, and changing noise.
    let Slots { clip, filter, optimizer, expected_batch, schedule, .. } = slots(mechanism);
    let threshold = Quantile::new(0.5, 0.2, 5.0).unwrap();
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, expected_batch, schedule };
    assert_eq!(PrivateStep::new(slots).unwrap_err().parameter, "threshold");
    let learning_rate = LearningRate::new(1.0, 0, Decay::Constant).unwrap();
    let with = |noise| {
        let Slots { clip, filter, optimizer, expected_batch, threshold, .. } = self::slots(mechanism);
        let schedule = Declared { learning_rate, noise };
        PrivateStep::new(Slots { mechanism, clip, threshold, filter, optimizer, expected_batch, schedule }).map(|_| ())
    };
    assert_eq!(with(NoiseSchedule::Constant), Ok(()));
    let grows = NoiseSchedule::Polynomial { growth: 0.05, exponent: 0.5 };
    assert_eq!(with(grows).unwrap_err().parameter, "noise schedule");
}

#[test]
fn wrong_configurations_are_refused() {
    let grid = Grid::new(20).unwrap();
    let new = |sigma, run, dim| Correlated::new(grid, sigma, blt(), run, dim).map(|mechanism| mechanism.sigma());
    assert_eq!(new(1 << 20, run(), 3), Ok(1 << 20));
    assert_eq!(new(1023, run(), 3).unwrap_err().must_be, "from 2^10 to 2^31 - 1");
    assert_eq!(new(2000, run(), 3).unwrap_err().must_be, "larger, or the grid bits more");
    assert_eq!(new(1 << 20, run(), 0).unwrap_err().parameter, "number of parameters");
    let of =
        |multiplier| CorrelatedGaussian::<i64, _, Vec<NoiseWord>>::with_multiplier(grid, multiplier, blt(), run(), 3);
    for multiplier in [0.1, 1.0, 1.25, 30.0] {
        let found = of(multiplier).unwrap().event().unwrap().multiplier();
        assert!(found >= multiplier && found < multiplier * 1.00001, "{multiplier}: {found}");
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
    // Buffers with a long range, and the largest noise.
    let far = Blt::new([1.0 - 1e-9], [1e-6]).unwrap();
    let long = Participation::new(1_000_000, 1_000_000, 1).unwrap();
    assert!(Correlated::new(grid, (1 << 31) - 1, far, long, 3).is_err());
    assert!(Correlated::new(grid, 1 << 20, far, long, 3).is_ok());
    // A column whose inverse grows without bound.
    let unstable = Banded::<4>::new([1.0, 1.0, 1.0, 1.0]).unwrap();
    assert!(CorrelatedGaussian::<i64, _, Vec<NoiseWord>>::new(grid, 1 << 20, unstable, run(), 3).is_ok());
}

/// Optimizers get the standard deviation of this step's noise: `σ·√(Σ_{j≤t} a_j²)`.
#[test]
fn noise_std_follows_the_inverse() {
    let (told, _) = listened(false);
    let (theta, omega) = (blt().theta(), blt().omega());
    let column: Vec<f64> =
        (0..20).map(|j| if j == 0 { 1.0 } else { (0..2).map(|i| omega[i] * theta[i].powi(j - 1)).sum() }).collect();
    let mut inverse = vec![1.0];
    for t in 1..20 {
        inverse.push(-(1..=t).map(|j| column[j] * inverse[t - j]).sum::<f64>());
    }
    let mut square = 0.0;
    for (told, entry) in told.iter().zip(inverse) {
        square += entry * entry;
        assert!((told - 5000.0 * f64::sqrt(square)).abs() < 1e-6, "{told}");
    }
}

/// The noise of prefix sums has the variance `σ²E_i`, and independent noise at the same ε has more. Fixed seed. The
/// mean square over m coordinates of a Gaussian has a relative deviation of `√(2/m)`. The bound is five of those, and a
/// σ that is off by 2 % would exceed it.
fn prefix_variance<K: Correlation>(correlation: K, steps: u32, dim: usize, error: impl Fn(u32) -> f64) {
    let sigma = 2000;
    let step = step(mechanism(correlation, sigma, Participation::new(steps, 10, 10).unwrap(), dim));
    let (mut state, mut sums) = (state(correlation, dim), vec![0i64; dim]);
    for number in 0..steps {
        let noise = released(&step, &mut state, number, dim, 9);
        sums.iter_mut().zip(noise).for_each(|(sum, noise)| *sum += noise);
        let square = sums.iter().map(|sum| (*sum as f64).powi(2)).sum::<f64>() / dim as f64;
        let expected = f64::from(sigma).powi(2) * error(number);
        let deviation = (2.0 / dim as f64).sqrt();
        assert!((square / expected - 1.0).abs() < 5.0 * deviation, "step {number}: {square} {expected}");
        assert!(5.0 * deviation < 0.0404, "the bound would not see a deviation that is 2 % off");
    }
}

#[test]
fn prefix_sums_have_the_stated_variance() {
    let dim = 40_000;
    // A_j of C⁻¹ = (1, −λ): 1, then 1 − λ.
    prefix_variance(Lambda::new(15, 4).unwrap(), 40, dim, |t| 1.0 + f64::from(t) / 256.0);
    let (theta, omega) = (blt().theta(), blt().omega());
    let errors: Vec<f64> = {
        let (mut buffers, mut prefix, mut error) = ([0.0; 2], 0.0, 0.0);
        (0..40)
            .map(|t| {
                let entry = f64::from(u8::from(t == 0)) - omega[0] * buffers[0] - omega[1] * buffers[1];
                buffers = [theta[0] * buffers[0] + entry, theta[1] * buffers[1] + entry];
                prefix += entry;
                error += prefix * prefix;
                error
            })
            .collect()
    };
    prefix_variance(blt(), 40, dim, |t| errors[t as usize]);
}

/// A sample's steps in a fixed order match the accounted pattern. Adam accepts the noise like any other.
#[test]
fn fixed_order_steps_move_parameters() {
    let dim = 70;
    let step = PrivateStep::new(Slots {
        mechanism: mechanism(blt(), 5000, run().of_samples(995).unwrap(), dim),
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Adam::new(0.9, 0.999, 1e-8, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch: 10,
    })
    .unwrap();
    let adam = AdamState::new(vec![0.0; dim], vec![0.0; dim]);
    let mut state =
        StepState::new(vec![SumWord::<i64>::ZERO; dim], (), adam, ()).with_noise(CorrelatedState::new(words(dim * 2)));
    let (mut ledger, mut params) = (Ledger::volatile(1000), vec![0f32; dim]);
    for number in 0..5 {
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        assert_eq!(open.fixed_order_batch(), Ok(10 * number..10 * number + 10));
        open.add_combined(&[&vec![0.5; dim]]).unwrap();
        open.finish(&mut params, &ChaCha20::<2>::simulation(1)).unwrap();
    }
    assert!(params.iter().all(|param| *param != 0.0 && param.is_finite()));
}

/// The squared sensitivity `‖C(x)‖²/Δ²` of a sample in these steps, from the coefficients `c_j` in f64.
fn squared(blt: &Blt<2>, steps: &[u32], of: u32) -> f64 {
    let (theta, omega) = (blt.theta(), blt.omega());
    let entry = |j: u32| if j == 0 { 1.0 } else { (0..2).map(|i| omega[i] * theta[i].powi(j as i32 - 1)).sum() };
    (0..of).map(|t| steps.iter().filter(|at| **at <= t).map(|at| entry(t - at)).sum::<f64>().powi(2)).sum()
}

/// If each step had another number of samples, a sample would return before the separation, and its sensitivity would
/// exceed the accounted value. So the number belongs to the run, and a step does not take it as an argument.
#[test]
fn fixed_order_is_of_one_number_of_samples() {
    let order = |samples| run().of_samples(samples).unwrap();
    let steps_of = |sample: u32, samples: &dyn Fn(u32) -> u32| -> Vec<u32> {
        (0..1000).filter(|step| order(samples(*step)).batch(*step).unwrap().contains(&sample)).collect()
    };
    let priced = blt().sensitivity(run());
    let one = steps_of(250, &|_| 400);
    assert!(squared(&blt(), &one, 1000).sqrt() <= priced, "{one:?}");
    // A caller that passes the number at each step could do this: the sample is in two batches of each epoch.
    let many = steps_of(250, &|step| if step % 100 < 50 { 1000 } else { 400 });
    assert!(squared(&blt(), &many, 1000).sqrt() > 1.1 * priced, "{many:?}");

    let with = |samples| step(mechanism(blt(), 5000, order(samples), 3));
    let (first, other) = (with(400), with(401));
    assert!(first != other && first.fingerprint(3) != other.fingerprint(3));
    let (mut kept, mut ledger) = (state(blt(), 3), Ledger::volatile(1000));
    assert_eq!(first.open(&mut kept, &mut ledger).unwrap().fixed_order_batch(), Ok(0..4));
    let refused = OpenError::Call(CallError::Order("a ledger of another configuration"));
    assert_eq!(other.open(&mut kept, &mut ledger).err(), Some(refused));
    assert_eq!(ledger.charged_steps(), 1);
    // A step whose run does not set the number.
    let unset = step(mechanism(blt(), 5000, run(), 3));
    assert!(unset.open(&mut kept, &mut Ledger::volatile(1000)).unwrap().fixed_order_batch().is_err());
}

/// The fingerprint covers every accounted number, and every number that identifies the noise.
#[test]
fn fingerprint_has_every_priced_number() {
    let of = |step: Step<AnyCorrelation>| step.fingerprint(3);
    let any = |correlation: AnyCorrelation, sigma, run| of(step(mechanism(correlation, sigma, run, 3)));
    let blt = |omega| AnyCorrelation::blt(&[0.9, 0.5], &[0.2, omega]).unwrap();
    let (run, banded) = (run(), |last| AnyCorrelation::banded(&[1.0, 0.5, last]).unwrap());
    let all = [
        any(blt(0.1), 5000, run),
        any(blt(0.11), 5000, run),
        any(blt(0.1), 5001, run),
        any(blt(0.1), 5000, Participation::new(1000, 100, 9).unwrap()),
        any(blt(0.1), 5000, Participation::new(1000, 101, 10).unwrap()),
        any(blt(0.1), 5000, Participation::new(999, 100, 10).unwrap()),
        any(blt(0.1), 5000, run.of_samples(400).unwrap()),
        any(banded(0.5), 5000, run),
        any(banded(0.25), 5000, run),
        any(Lambda::new(15, 4).unwrap().into(), 5000, run),
        any(Lambda::new(7, 4).unwrap().into(), 5000, run),
        step(mechanism(self::blt(), 5000, run, 4)).fingerprint(4),
        PrivateStep::new(Slots { expected_batch: 2, ..slots(mechanism(self::blt(), 5000, run, 3)) })
            .unwrap()
            .fingerprint(3),
    ];
    let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
    assert_eq!(distinct.len(), all.len());
    // The same correlation in another type has the same fingerprint.
    assert_eq!(
        any(Lambda::new(15, 4).unwrap().into(), 5000, run),
        step(mechanism(Lambda::new(15, 4).unwrap(), 5000, run, 3)).fingerprint(3)
    );
}
