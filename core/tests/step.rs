//! Properties of a whole private step, tested through its public API alone.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

#[path = "step/access.rs"]
mod access;
#[path = "step/float_sum.rs"]
mod float_sum;

use damper_access::Unreleased;
use damper_core::accounting::{Ledger, Rate, RenyiFilter, Volatile};
use damper_core::clip::FlatL2;
use damper_core::error::{CallError, OpenError};
use damper_core::filter::{Filter, Identity};
use damper_core::grid::{Grid, Word};
use damper_core::noise::{ChaCha20, ContinuousGaussian, DiscreteGaussian, Generator, Key, Xoshiro};
use damper_core::optimizer::{Adam, AdamState, Begin, Sgd, SgdState};
use damper_core::private::{Mechanism, Released, SumWord};
use damper_core::schedule::Constant;
use damper_core::step::{FloatSum, NoisePart, Open, PrivateStep, Slots, StepState};
use damper_core::threshold::{Fixed, Threshold};
use proptest::prelude::*;

type Step<M> = PrivateStep<Identity, Sgd, M>;

fn exact<W: Word>(multiplier: f64) -> DiscreteGaussian<W> {
    DiscreteGaussian::with_multiplier(Grid::new(20).unwrap(), multiplier).unwrap()
}

/// DP-SGD whose parameters, from zero, become the negated released mean.
fn plain<M: Mechanism<NoiseState = ()>>(mechanism: M, clip: f32, expected_batch: u32) -> Step<M> {
    PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(clip),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch,
    })
    .unwrap()
}

fn state<W: Copy + Default>(dim: usize) -> StepState<Vec<W>, (), SgdState<Vec<f32>>> {
    StepState::new(vec![W::default(); dim], (), SgdState { momentum: vec![] }, ())
}

/// The released means of `steps` steps with these `samples`.
fn release<M: Mechanism<NoiseState = ()>, G: Generator>(
    step: &Step<M>,
    samples: &[Vec<f32>],
    dim: usize,
    generator: &G,
    steps: u32,
) -> Vec<f32> {
    let mut state = state::<M::Word>(dim);
    let mut ledger = Ledger::volatile(steps);
    let mut means = Vec::new();
    for _ in 0..steps {
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        for sample in samples {
            open.add_combined(&[sample]).unwrap();
        }
        let mut params = vec![0f32; dim];
        open.finish(&mut params, generator).unwrap();
        means.extend(params.iter().map(|p| -p));
    }
    means
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn gradients() -> impl Strategy<Value = Vec<Vec<f32>>> {
    prop::collection::vec(prop::collection::vec(-3f32..3.0, 5), 0..12)
}

proptest! {
    // The release does not depend on the order of samples, or on their shards.
    #[test]
    fn release_ignores_order_and_shards(
        samples in gradients(), at in 0usize..12, seed in any::<u64>(),
    ) {
        let step = plain(exact::<i64>(1.0), 1.0, 4);
        let generator = ChaCha20::<1>::simulation(seed);
        let forward = release(&step, &samples, 5, &generator, 1);
        let reversed: Vec<_> = samples.iter().rev().cloned().collect();
        prop_assert_eq!(bits(&forward), bits(&release(&step, &reversed, 5, &generator, 1)));

        let (mut state, mut ledger, mut memory) = (state::<SumWord<i64>>(5), Ledger::volatile(1), [SumWord::new(7i64, Unreleased::claim()); 5]);
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        let mut shard = open.shard(&mut memory).unwrap();
        for (i, sample) in samples.iter().enumerate() {
            if i < at { shard.add_combined(&[sample]).unwrap() } else { open.add_combined(&[sample]).unwrap() }
        }
        open.merge(shard).unwrap();
        let mut params = [0f32; 5];
        open.finish(&mut params, &generator).unwrap();
        prop_assert_eq!(bits(&forward), bits(&params.map(|p| -p)));
        prop_assert_eq!(memory.map(|word| word.get(Unreleased::claim())), [0; 5]);
    }

    #[test]
    fn a_sample_that_is_not_finite_moves_no_bit(samples in gradients(), bad in prop::sample::select(&[f32::NAN, f32::INFINITY][..])) {
        let step = plain(exact::<i64>(1.0), 1.0, 4);
        let generator = ChaCha20::<1>::simulation(3);
        let without = release(&step, &samples, 5, &generator, 1);
        let mut with = samples.clone();
        with.push(vec![1.0, bad, 0.0, 0.0, 0.0]);
        prop_assert_eq!(bits(&without), bits(&release(&step, &with, 5, &generator, 1)));
    }

    // The divisor is the expected batch size, for any realised batch.
    #[test]
    fn divisor_is_expected_batch(samples in gradients()) {
        // Noise of one unit on a grid of 2^20: the rest is the sum over the declared size.
        let step = plain(DiscreteGaussian::<i64>::new(Grid::new(20).unwrap(), 1).unwrap(), 1e6, 7);
        let mean = release(&step, &samples, 5, &ChaCha20::<1>::simulation(3), 1);
        for (i, mean) in mean.iter().enumerate() {
            let sum: f64 = samples.iter().map(|s| f64::from(s[i])).sum();
            prop_assert!((f64::from(*mean) * 7.0 - sum).abs() < 30.0, "{mean} {sum}");
        }
    }

    /// Adversarial samples: many equal coordinates, one coordinate, huge, tiny. In grid units, with the noise of the
    /// same address subtracted, so the comparison is exact. The sum of the others must not change at all.
    #[test]
    fn added_sample_moves_sum_by_at_most_clip(
        others in gradients(), kind in 0usize..5, size in -6i32..7,
    ) {
        let x = 10f32.powi(size);
        let extra = [vec![x; 5], vec![x, 0.0, 0.0, 0.0, 0.0], vec![x, -x, x, -x, x], vec![0.6, 0.8, 0.0, 0.0, 0.0],
            vec![x, 1e-7, -1e-7, 0.5, 3.0]][kind].clone();
        let step = plain(DiscreteGaussian::<i64>::new(Grid::new(16).unwrap(), 1).unwrap(), 1.0, 1);
        let generator = ChaCha20::<1>::simulation(5);
        let grid = |samples: &[Vec<f32>]| -> Vec<i64> {
            release(&step, samples, 5, &generator, 1).iter().map(|x| (x * 65536.0) as i64).collect()
        };
        let without = grid(&others);
        let with = grid(&[others, vec![extra]].concat());
        let moved: i64 = with.iter().zip(&without).map(|(a, b)| (a - b).pow(2)).sum();
        prop_assert!(moved <= 1 << 32, "{moved}");
    }

    #[test]
    fn words_of_both_widths_give_the_same_bits(samples in gradients(), seed in any::<u64>()) {
        let generator = ChaCha20::<4>::simulation(seed);
        let narrow = release(&plain(exact::<i32>(1.5), 0.7, 4), &samples, 5, &generator, 2);
        let wide = release(&plain(exact::<i64>(1.5), 0.7, 4), &samples, 5, &generator, 2);
        prop_assert_eq!(bits(&narrow), bits(&wide));
    }

    // Adding evaluation points one by one equals adding their weighted sum.
    #[test]
    fn eval_points_combine_to_weighted_sum(grad in prop::collection::vec(-3f32..3.0, 5)) {
        let step = plain(exact::<i64>(1.0), 1.0, 4);
        let generator = ChaCha20::<1>::simulation(3);
        let (mut state, mut ledger, mut buffer) = (state::<SumWord<i64>>(5), Ledger::volatile(1), [9f32; 5]);
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        prop_assert_eq!(open.eval_points(), 1);
        let mut mixing = open.add_points(&mut buffer).unwrap();
        mixing.eval_point(&[&grad]).unwrap();
        prop_assert!(mixing.eval_point(&[&grad]).is_err());
        mixing.add().unwrap();
        let mut params = [0f32; 5];
        open.finish(&mut params, &generator).unwrap();
        prop_assert_eq!(bits(&release(&step, &[grad], 5, &generator, 1)), bits(&params.map(|p| -p)));
    }
}

/// Standard deviation of `means`, in units of `clip / B`.
fn spread(means: &[f32], clip: f32, expected_batch: u32) -> f64 {
    let variance = means.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / means.len() as f64;
    variance.sqrt() * f64::from(expected_batch) / f64::from(clip)
}

/// Without samples the release is noise of the stated size: an empty batch is an ordinary step. Fixed seeds. The
/// standard deviation of 40,000 draws has a relative standard error of 0.35 %. The bound is 6 of them, and a control
/// that is off by 3 % in either direction must fail it.
#[test]
fn empty_batch_releases_declared_noise() {
    fn check<M: Mechanism<NoiseState = ()>>(mechanism: M, generator: &impl Generator) {
        let (clip, batch) = (0.3, 8);
        let step = plain(mechanism, clip, batch);
        let spread = spread(&release(&step, &[], 2000, generator, 20), clip, batch) / mechanism.multiplier();
        assert!((spread - 1.0).abs() < 0.021, "{spread}");
        assert!((spread * 1.03 - 1.0).abs() > 0.021 && (spread / 1.03 - 1.0).abs() > 0.021);
    }
    check(exact::<i64>(0.7), &ChaCha20::<4>::simulation(1));
    check(exact::<i32>(3.0), &ChaCha20::<1>::simulation(2));
    check(exact::<i64>(1.1), &Xoshiro::simulation(4));
    check(ContinuousGaussian::new(1.3).unwrap(), &ChaCha20::<4>::simulation(3));
}

/// The noise can be drawn in any number of parts, by threads, in any order, twice, partly by others or not. The bits
/// are those of one part.
#[test]
fn parts_of_the_noise_give_the_same_bits() {
    #[allow(clippy::type_complexity)] // The function that finishes a step, and the function that draws its noise.
    fn check<M: Mechanism<Word: Send, NoiseState = ()> + Send + Sync>(mechanism: M, dim: usize) {
        let (step, generator) = (plain(mechanism, 1.0, 4), ChaCha20::<4>::simulation(9));
        let grad: Vec<f32> = (0..dim).map(|at| (at % 13) as f32 / 400.0).collect();
        let after = |finish: &dyn Fn(Open<'_, Step<M>, (), SgdState<Vec<f32>>>, &mut [f32])| {
            let (mut state, mut ledger) = (state(dim), Ledger::volatile(2));
            let mut params = vec![0.25; dim];
            for _ in 0..2 {
                let mut open = step.open(&mut state, &mut ledger).unwrap();
                open.add(&grad).unwrap();
                finish(open, &mut params);
            }
            bits(&params)
        };
        let want = after(&|open, params| open.finish(params, &generator).unwrap());
        for parts in [0, 1, 2, 3, 7, 64, 1000] {
            let on = |draw: &dyn Fn(&mut [NoisePart<'_, M, ChaCha20<4>>])| {
                after(&|open, params| open.finish_on(params, &generator, parts, |parts| draw(parts)).unwrap())
            };
            assert_eq!(on(&|_| {}), want, "{dim} in {parts} parts");
            assert_eq!(on(&|parts| parts.iter_mut().rev().step_by(2).for_each(NoisePart::draw)), want);
            let threads = |parts: &mut [NoisePart<'_, M, ChaCha20<4>>]| {
                assert!(parts.len() <= NoisePart::<M, ChaCha20<4>>::MOST);
                std::thread::scope(|scope| parts.iter_mut().for_each(|part| drop(scope.spawn(|| part.draw()))));
                parts.reverse();
                parts.iter_mut().for_each(NoisePart::draw);
            };
            assert_eq!(on(&threads), want, "{dim} in {parts} parts");
        }
    }
    for dim in [1, 1023, 1024, 1025, 5000] {
        check(exact::<i64>(1.0), dim);
        check(exact::<i32>(1.0), dim);
        check(ContinuousGaussian::new(1.0).unwrap(), dim);
    }
}

// No two blocks of noise are equal over steps, chunks and keys.
#[test]
fn noise_blocks_are_unique() {
    let step = plain(exact::<i64>(1.0), 1.0, 1);
    let mut blocks = std::collections::HashSet::new();
    for seed in 0..3 {
        let noise = release(&step, &[], 5000, &ChaCha20::<4>::simulation(seed), 6);
        for block in noise.chunks(8) {
            assert!(blocks.insert(bits(block)), "noise repeats");
        }
    }
}

#[test]
fn release_lies_on_declared_grid() {
    let step = plain(exact::<i64>(1.0), 1.0, 1);
    for x in release(&step, &[vec![0.1; 64]], 64, &ChaCha20::<1>::simulation(1), 3) {
        assert_eq!((x * (1 << 20) as f32).fract(), 0.0);
    }
}

// The number of released steps is the number of charged steps, and never exceeds the budget.
#[test]
fn released_steps_equal_charged_steps() {
    let step = plain(exact::<i64>(1.0), 1.0, 1);
    let (mut state, mut ledger) = (state::<SumWord<i64>>(2), Ledger::volatile(2));
    for number in 0..2 {
        let open = step.open(&mut state, &mut ledger).unwrap();
        assert_eq!(open.number(), number);
    }
    assert!(matches!(step.open(&mut state, &mut ledger), Err(OpenError::BudgetSpent)));
}

// A failed call releases nothing and wipes the sum.
#[test]
fn failed_call_releases_nothing() {
    let step = plain(exact::<i64>(1.0), 1.0, 1);
    let (mut state, mut ledger) = (state::<SumWord<i64>>(3), Ledger::volatile(9));
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    open.add_combined(&[&[1.0, 2.0, 3.0]]).unwrap();
    assert_eq!(open.add_combined(&[&[1.0, 2.0]]), Err(CallError::Length { what: "the gradient", expected: 3, got: 2 }));
    let mut params = [0f32; 2];
    assert!(open.finish(&mut params, &ChaCha20::<1>::simulation(0)).is_err());
    assert_eq!(params, [0.0; 2]);
    assert!(state.sum(Unreleased::claim()).iter().all(|word| word.get(Unreleased::claim()) == 0));
    assert_eq!(ledger.charged_steps(), 1);
}

/// `mem::forget` runs no destructor. The words stay, and the next step or shard wipes them before it adds anything.
#[test]
fn forgotten_step_or_shard_is_wiped() {
    fn check<M: Mechanism<NoiseState = ()>>(mechanism: M, is_zero: impl Fn(M::Word) -> bool) {
        let (step, generator, sample) =
            (plain(mechanism, 1.0, 1), ChaCha20::<1>::simulation(3), [0.5f32, -0.25, 0.125]);
        let releases = |forget: bool| {
            let (mut state, mut ledger) = (state::<M::Word>(3), Ledger::resume(Volatile, 9, 4));
            let mut memory = [M::Word::default(); 3];
            if forget {
                let mut first = Ledger::volatile(1);
                let mut open = step.open(&mut state, &mut first).unwrap();
                open.add_combined(&[&sample]).unwrap();
                let mut shard = open.shard(&mut memory).unwrap();
                shard.add_combined(&[&sample]).unwrap();
                std::mem::forget(shard);
                std::mem::forget(open);
                assert!(
                    !state.sum(Unreleased::claim()).iter().chain(&memory).any(|word| is_zero(*word)),
                    "nothing was left to wipe"
                );
            }
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            assert!(open.probe(Unreleased::claim()).sum.iter().all(|word| is_zero(*word)));
            let mut shard = open.shard(&mut memory).unwrap();
            assert!(shard.probe(Unreleased::claim()).sum.iter().all(|word| is_zero(*word)));
            shard.add_combined(&[&sample]).unwrap();
            open.merge(shard).unwrap();
            let mut params = [0f32; 3];
            open.finish(&mut params, &generator).unwrap();
            params
        };
        assert_eq!(bits(&releases(true)), bits(&releases(false)));
    }
    check(exact::<i32>(1.0), |word| word.get(Unreleased::claim()) == 0);
    check(exact::<i64>(1.0), |word| word.get(Unreleased::claim()) == 0);
    check(ContinuousGaussian::new(1.0).unwrap(), |word| word.get(Unreleased::claim()) == 0.0);
}

/// The caller's types are asked once. A memory or a threshold that answers differently the second time has no effect.
#[test]
fn what_was_checked_is_what_the_step_uses() {
    use std::cell::Cell;
    struct Shrinking(Vec<SumWord<i64>>, usize);
    impl AsMut<[SumWord<i64>]> for Shrinking {
        fn as_mut(&mut self) -> &mut [SumWord<i64>] {
            let length = self.1;
            self.1 = 1;
            &mut self.0[..length]
        }
    }
    #[derive(Clone)]
    struct Growing(Cell<f32>);
    impl Threshold for Growing {
        type State = ();
        type Counts = [i32; 0];
        fn clip(&self, (): &()) -> f32 {
            self.0.replace(f32::NAN)
        }
    }
    let step = PrivateStep::new(Slots {
        mechanism: exact::<i64>(1.0),
        clip: FlatL2,
        threshold: Growing(Cell::new(1.0)),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .unwrap();
    let memory = Shrinking(vec![SumWord::ZERO; 3], 3);
    let mut state = StepState::new(memory, (), SgdState { momentum: vec![0f32; 0] }, ());
    let mut open = step.open(&mut state, &mut Ledger::volatile(1)).unwrap();
    assert_eq!(open.clip(), 1.0);
    open.add_combined(&[&[1.0, 2.0, 3.0]]).unwrap();
}

#[test]
fn a_shard_of_another_step_is_not_merged() {
    let step = plain(exact::<i64>(1.0), 1.0, 1);
    let (mut state, mut ledger, mut memory) = (state::<SumWord<i64>>(1), Ledger::volatile(9), [SumWord::ZERO]);
    let shard = step.open(&mut state, &mut ledger).unwrap().shard(&mut memory).unwrap();
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    assert!(matches!(open.merge(shard), Err(CallError::Order(_))));
}

/// In the sum, a unit of a finer grid or of a smaller clip would count more than one sample may add.
#[test]
fn shard_of_other_step_is_error() {
    let coarse = DiscreteGaussian::<i64>::with_multiplier(Grid::new(8).unwrap(), 1.0).unwrap();
    for other in [plain(exact(1.0), 1.0, 1), plain(coarse, 0.5, 1)] {
        let (mut state, mut ledger, mut memory) = (state::<SumWord<i64>>(1), Ledger::volatile(9), [SumWord::ZERO]);
        let (mut other_state, mut other_ledger) = (self::state::<SumWord<i64>>(1), Ledger::volatile(9));
        let mut opened = other.open(&mut other_state, &mut other_ledger).unwrap();
        let mut shard = opened.shard(&mut memory).unwrap();
        shard.add_combined(&[&[1.0]]).unwrap();
        let step = plain(coarse, 1.0, 1);
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        assert!(matches!(open.merge(shard), Err(CallError::Order(_))));
        opened.add_combined(&[&[1.0]]).unwrap();
    }
}

// The identity filter evaluates at the parameters and does not change a bit.
#[test]
fn identity_evaluates_at_params() {
    let params = [1.5f32, -0.0];
    let mut out = [0f32; 2];
    assert_eq!(Identity.eval_point(&(), 0, &params, &mut out), Ok(1.0));
    assert_eq!(bits(&out), bits(&params));
    assert!(Identity.eval_point(&(), 1, &params, &mut out).is_err());
}

// The event has the multiplier that the mechanism runs.
#[test]
fn event_has_running_multiplier() {
    let mechanism = exact::<i64>(1.000_000_1);
    assert_eq!(mechanism.sigma(), (1 << 20) + 1);
    let event = plain(mechanism, 1.0, 1).event_at(0, Rate::ONE).unwrap();
    assert_eq!(event.multiplier(), 1.0 + 1.0 / f64::from(1 << 20));
}

/// Noise outside the range of the accountant's bounds has no event, and no step that a filter would charge.
#[test]
fn too_small_sigma_is_error() {
    let at =
        |bits: u32, sigma: u32| plain(DiscreteGaussian::<i64>::new(Grid::new(bits).unwrap(), sigma).unwrap(), 1.0, 1);
    for (bits, sigma, accepted) in
        [(8, 1023, false), (8, 1024, true), (22, 6476, false), (22, 6477, true), (16, 1024, true), (17, 1144, false)]
    {
        assert_eq!(at(bits, sigma).event_at(0, Rate::ONE).is_ok(), accepted, "{sigma} of 2^{bits}");
    }
    assert!(at(8, 1100).event_adaptive(0.9, Rate::ONE).is_err());
    let mut filter = RenyiFilter::new(8, 10.0, 1e-5).unwrap();
    let (step, mut state) = (at(8, 1100), state::<SumWord<i64>>(1));
    let opened = step.open_adaptive(&mut state, 0.9, Rate::ONE, &mut filter, &mut Volatile);
    assert!(matches!(opened, Err(OpenError::Call(_))));
    assert_eq!(filter.charged_steps(), 0);
}

#[test]
fn adam_runs_through_the_same_step() {
    let step = PrivateStep::new(Slots {
        mechanism: exact::<i64>(0.5),
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Adam::new(0.9, 0.999, 1e-8, 0.01).unwrap(),
        schedule: Constant(0.01),
        expected_batch: 8,
    })
    .unwrap();
    let dim = 1500;
    let mut state = StepState::new(vec![SumWord::ZERO; dim], (), AdamState::new(vec![0f32; dim], vec![0f32; dim]), ());
    let (mut ledger, mut params) = (Ledger::volatile(3), vec![0.5f32; dim]);
    let generator = ChaCha20::<4>::from_key(Key::from_bytes(&mut [7; 32]));
    for _ in 0..3 {
        let open = step.open(&mut state, &mut ledger).unwrap();
        open.finish(&mut params, &generator).unwrap();
    }
    assert!(params.iter().all(|p| p.is_finite() && (p - 0.5).abs() < 0.05));
    assert!(params.iter().any(|p| *p != 0.5));
}

/// Optimizers see `Released`. Only a mechanism can construct it, so this test only checks its fields.
#[test]
fn a_released_gradient_states_its_noise() {
    #[derive(Clone)]
    struct Probe;
    impl damper_core::optimizer::Optimizer<f64> for Probe {
        type Step = ();
        fn check(&self, _: &f64, _: usize) -> Result<(), CallError> {
            Ok(())
        }
        fn begin(&self, _: &mut f64, _: Begin) {}
        fn update(&self, (): (), seen: &mut f64, _: usize, _: &mut [f32], _: &Released<'_>, released: &Released<'_>) {
            *seen = released.noise_std();
        }
    }
    let step = PrivateStep::new(Slots {
        mechanism: exact::<i64>(2.0),
        clip: FlatL2,
        threshold: Fixed(0.5),
        filter: Identity,
        optimizer: Probe,
        schedule: Constant(1.0),
        expected_batch: 4,
    })
    .unwrap();
    let mut state = StepState::new([SumWord::ZERO; 1], (), 0.0, ());
    let open = step.open(&mut state, &mut Ledger::volatile(1)).unwrap();
    open.finish(&mut [0.0], &ChaCha20::<1>::simulation(0)).unwrap();
    assert_eq!(state.optimizer, 0.25);
}
