//! Properties of thresholds that learn from counts, tested through whole private steps.
//!
//! All seeds are fixed. Statistical tests state the probability that a correct implementation fails.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

mod again;
mod loops;

use damper_core::accounting::renyi::RenyiCurve;
use damper_core::accounting::{Ledger, Rate, SampledGaussian, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState,
    Query, ReleasedCounts, Solver, StepConstants, Threshold, gradient_multiplier,
};
use proptest::prelude::*;
use rand_core::Rng;

type Mechanism = DiscreteGaussian<i64>;
type Step<T> = PrivateStep<Identity, Sgd, Mechanism, T>;
type State<S> = StepState<Vec<SumWord<i64>>, (), SgdState<Vec<f32>>, S>;

fn mechanism(multiplier: f64) -> Mechanism {
    DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), multiplier).unwrap()
}

fn step<T: Threshold>(threshold: T, multiplier: f64, expected_batch: u32) -> Step<T> {
    PrivateStep::new(Slots {
        mechanism: mechanism(multiplier),
        clip: FlatL2,
        threshold,
        filter: Identity,
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch,
    })
    .unwrap()
}

fn state<S>(threshold: S, dim: usize) -> State<S> {
    StepState::new(vec![SumWord::ZERO; dim], (), SgdState { momentum: vec![0.0; dim] }, threshold)
}

fn noise(multiplier: f64) -> CountNoise {
    CountNoise::new(multiplier).unwrap()
}

fn percentile(fraction: f64) -> (Percentile, PercentileState) {
    (Percentile::new(fraction, noise(5.0)).unwrap(), PercentileState::new(1.0, 1.0).unwrap())
}

fn expected_error(solver: Solver) -> (ExpectedError, ExpectedErrorState) {
    (ExpectedError::new(solver, noise(5.0)).unwrap(), ExpectedErrorState::new(1.0, 20.0).unwrap())
}

fn quantile(quantile: f64, batch: u32) -> (Quantile, QuantileState) {
    (Quantile::new(quantile, 0.2, f64::from(batch) / 20.0).unwrap(), QuantileState::new(1.0).unwrap())
}

/// A rule that also records its released counts.
#[derive(Clone)]
struct Recorder<T>(T);

struct Record<S> {
    state: S,
    counts: Vec<Vec<f64>>,
    constants: Vec<StepConstants>,
}

fn record<S>(state: S) -> Record<S> {
    Record { state, counts: vec![], constants: vec![] }
}

impl<T: Threshold> Threshold for Recorder<T> {
    type State = Record<T::State>;
    type Counts = T::Counts;
    fn clip(&self, state: &Self::State) -> f32 {
        self.0.clip(&state.state)
    }
    fn query(&self, state: &Self::State) -> Query {
        self.0.query(&state.state)
    }
    fn count_noise(&self) -> Option<CountNoise> {
        self.0.count_noise()
    }
    fn update(&self, state: &mut Self::State, released: &ReleasedCounts<'_>, constants: StepConstants) {
        state.counts.push(released.counts().to_vec());
        state.constants.push(constants);
        self.0.update(&mut state.state, released, constants);
    }
}

/// Takes one step with `samples` and returns its clip.
fn take<T: Threshold>(
    step: &Step<T>,
    state: &mut State<T::State>,
    ledger: &mut Ledger<Volatile>,
    samples: &[Vec<f32>],
    params: &mut [f32],
    seed: u64,
) -> f32 {
    let mut open = step.open(state, ledger).unwrap();
    let clip = open.clip();
    for sample in samples {
        open.add_combined(&[sample]).unwrap();
    }
    open.finish(params, &ChaCha20::<1>::simulation(seed)).unwrap();
    clip
}

/// The release of one first step: the movement of the parameters from zero, in units of `-0.1·C/B`, and the counts.
fn first<T: Threshold>(threshold: T, start: T::State, samples: &[Vec<f32>], dim: usize) -> (Vec<f32>, Vec<f64>) {
    let step = step(Recorder(threshold), 1.25, 1);
    let mut state = state(record(start), dim);
    let mut params = vec![0.0; dim];
    take(&step, &mut state, &mut Ledger::volatile(1), samples, &mut params, 7);
    // The momentum is the first released mean itself.
    (state.optimizer.momentum, state.threshold.counts.remove(0))
}

/// Standard normal values, as sums of twelve uniform values: far more accurate than the measurements need.
struct Normal<R>(R);

impl<R: Rng> Normal<R> {
    fn draw(&mut self) -> f64 {
        (0..12).map(|_| f64::from(self.0.next_u32()) / 4_294_967_296.0).sum::<f64>() - 6.0
    }
}

fn normal(seed: u64) -> Normal<impl Rng> {
    Normal(Box::leak(Box::new(ChaCha20::<1>::simulation(seed))).stream(Address {
        purpose: Purpose::Augmentation,
        step: 0,
        chunk: 0,
    }))
}

/// 256 one-dimensional samples whose norms are lognormal.
fn lognormal<R: Rng>(median: f64, deviation: f64, source: &mut Normal<R>) -> Vec<Vec<f32>> {
    (0..256).map(|_| vec![(median * (deviation * source.draw()).exp()) as f32]).collect()
}

fn mean_and_deviation(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt())
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

// A step with counts costs the same as a DP-SGD step at the total multiplier.
#[test]
fn counted_step_costs_total_multiplier() {
    let (total, rate) = (1.1, Rate::of(256, 60_000).unwrap());
    let gradient = gradient_multiplier(total, noise(5.0)).unwrap();
    let events = [
        step(percentile(0.5).0, gradient, 256).event_at(0, rate).unwrap(),
        step(expected_error(Solver::Exact).0, gradient, 256).event_at(9, rate).unwrap(),
        {
            let rule = Quantile::new(0.5, 0.2, 2.5).unwrap();
            step(rule, gradient_multiplier(total, rule.count_noise().unwrap()).unwrap(), 256).event_at(3, rate).unwrap()
        },
    ];
    let plain = SampledGaussian::new(rate, total).unwrap();
    for event in events {
        // The multiplier of the mechanism is rounded up to the grid of 2^16 units.
        assert!(event.multiplier() >= total && event.multiplier() < total + 1.0 / 65_536.0, "{}", event.multiplier());
        assert_eq!(event.rate(), rate);
        let runs = mechanism(gradient).multiplier();
        assert!((runs.powi(-2) + 5f64.powi(-2) - event.multiplier().powi(-2)).abs() < 1e-12);

        let epsilon = |event| {
            let mut curve = RenyiCurve::EMPTY;
            curve.add(&event, 2344);
            curve.epsilon(1e-5).unwrap().epsilon
        };
        let (joint, alone) = (epsilon(event), epsilon(plain));
        assert!(joint <= alone && joint > alone * (1.0 - 1e-4), "{joint} {alone}");
    }
    // The same before that rounding, at every order.
    let joint = RenyiCurve::of(&SampledGaussian::new(rate, gradient).unwrap().and(5.0).unwrap());
    for (joint, alone) in joint.divergences().iter().zip(RenyiCurve::of(&plain).divergences()) {
        assert!((joint / alone - 1.0).abs() < 1e-9, "{joint} {alone}");
    }
}

#[test]
fn rule_without_counts_costs_as_dp_sgd() {
    let event = step(Fixed(1.0), 1.25, 256).event_at(0, Rate::ONE).unwrap();
    assert_eq!(event.multiplier(), 1.25);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Both releases with and without one sample, under the same noise. The difference is exactly the sample's
    /// contribution, because clip and batch are 1 and the grid is a power of two.
    #[test]
    fn joint_sensitivity_is_within_multiplier(
        samples in prop::collection::vec(prop::collection::vec(-2f32..2.0, 3), 1..12), rule in 0usize..3,
    ) {
        let both = |samples: &[Vec<f32>]| match rule {
            0 => first(percentile(0.5).0, percentile(0.5).1, samples, 3),
            1 => first(expected_error(Solver::Exact).0, expected_error(Solver::Exact).1, samples, 3),
            _ => first(Quantile::new(0.5, 0.2, 2.5).unwrap(), QuantileState::new(1.0).unwrap(), samples, 3),
        };
        let (grad, counts) = both(&samples);
        let (grad_without, counts_without) = both(&samples[1..]);
        let shift = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let stacked = shift(&wide(&grad), &wide(&grad_without)) / 1.25f64.powi(2) + shift(&counts, &counts_without) / 25.0;
        let bound = 1.25f64.powi(-2) + 1.0 / 25.0;
        prop_assert!(stacked <= bound, "{stacked} {bound}");
        prop_assert_eq!(shift(&counts, &counts_without), 1.0);
        let clipped = samples[0].iter().map(|x| x * x).sum::<f32>() > 1.0;
        prop_assert!(!clipped || stacked >= bound * (1.0 - 1e-3), "a clipped sample uses it up: {stacked} {bound}");
    }

    // The histogram counts every finite sample exactly once.
    #[test]
    fn histogram_counts_finite_samples_once(
        norms in prop::collection::vec(
            prop_oneof![0f32..40.0, Just(0.0), Just(20.0), Just(1e18), Just(1e30), Just(f32::NAN), Just(f32::INFINITY)], 0..40,
        ),
    ) {
        let samples: Vec<_> = norms.iter().map(|n| vec![*n]).collect();
        let (rule, start) = expected_error(Solver::Exact);
        let (_, with) = first(rule, start, &samples, 1);
        let (_, without) = first(rule, start, &[], 1);
        let counts: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
        // The square of a norm of 10³⁰ is not a finite f32.
        let counted = norms.iter().filter(|n| **n < 1e19).count() as f64;
        prop_assert_eq!(counts.iter().sum::<f64>(), counted);
        let beyond = norms.iter().filter(|n| **n >= 19.0 && **n < 1e19).count() as f64;
        prop_assert_eq!(counts[19], beyond);
    }

    // Shards give the counts and the parameters of the whole batch.
    #[test]
    fn shards_match_whole_batch(
        samples in prop::collection::vec(prop::collection::vec(-2f32..2.0, 3), 0..12), cuts in (0usize..12, 0usize..12),
    ) {
        let (rule, start) = percentile(0.3);
        let step = step(Recorder(rule), 1.25, 4);
        let (mut whole, mut whole_params) = (state(record(start), 3), [0.0; 3]);
        take(&step, &mut whole, &mut Ledger::volatile(1), &samples, &mut whole_params, 1);

        let (mut split, mut params, mut ledger) = (state(record(start), 3), [0.0; 3], Ledger::volatile(1));
        let (mut first_sum, mut second_sum) = ([SumWord::ZERO; 3], [SumWord::ZERO; 3]);
        let mut open = step.open(&mut split, &mut ledger).unwrap();
        let mut first = open.shard(&mut first_sum).unwrap();
        let mut second = open.shard(&mut second_sum).unwrap();
        for (i, sample) in samples.iter().enumerate() {
            if i < cuts.0 {
                first.add_combined(&[sample]).unwrap();
            } else if i < cuts.1 {
                second.add_combined(&[sample]).unwrap();
            } else {
                open.add_combined(&[sample]).unwrap();
            }
        }
        open.merge(second).unwrap();
        open.merge(first).unwrap();
        open.finish(&mut params, &ChaCha20::<1>::simulation(1)).unwrap();
        prop_assert_eq!(&whole.threshold.counts, &split.threshold.counts);
        prop_assert_eq!(whole.threshold.state, split.threshold.state);
        prop_assert_eq!(bits(&whole_params), bits(&params));
    }

    /// The fraction refers to the declared batch. A sample above the clip and one below it leave the count, and so the
    /// clip, unchanged.
    #[test]
    fn quantile_ignores_realised_batch(pairs in 0usize..30, count in -9i32..9) {
        let clip_after = |pairs: usize| {
            let mut samples = vec![vec![if count > 0 { 2.0 } else { 0.5 }]; count.unsigned_abs() as usize];
            samples.extend((0..pairs).flat_map(|_| [vec![2.0], vec![0.5]]));
            let (rule, start) = quantile(0.7, 20);
            let mut state = state(start, 1);
            take(&step(rule, 1.25, 20), &mut state, &mut Ledger::volatile(1), &samples, &mut [0.0], 3);
            state.threshold.clip()
        };
        prop_assert_eq!(clip_after(pairs), clip_after(0));
    }
}

/// Runs `rule` over changing data. Returns the clips and the recorded releases.
fn run<T: Threshold>(rule: T, start: T::State, data: &[Vec<Vec<f32>>]) -> (Vec<f32>, State<Record<T::State>>) {
    run_of(rule, start, data, 11)
}

/// As [`run`], with the noise of a given seed.
fn run_of<T: Threshold>(
    rule: T,
    start: T::State,
    data: &[Vec<Vec<f32>>],
    seed: u64,
) -> (Vec<f32>, State<Record<T::State>>) {
    let step = step(Recorder(rule), 1.25, 256);
    let (mut state, mut ledger, mut params) = (state(record(start), 1), Ledger::volatile(1 << 31), [0.0]);
    let clips = data.iter().map(|samples| take(&step, &mut state, &mut ledger, samples, &mut params, seed)).collect();
    (clips, state)
}

// The clipping threshold of a step does not depend on the samples of that step.
#[test]
fn clip_ignores_samples_of_own_step() {
    fn check<T: Threshold + Copy>(rule: T, start: T::State)
    where
        T::State: Copy,
    {
        let mut source = normal(1);
        let data: Vec<_> = (0..8).map(|_| lognormal(1.0, 0.5, &mut source)).collect();
        let mut changed = data.clone();
        changed[4] = lognormal(0.05, 0.5, &mut source);
        // A rule that chooses among few clips may choose the same clip again because of its noise.
        let moves = (1..=8).filter(|&seed| {
            let (before, _) = run_of(rule, start, &data, seed);
            let (after, _) = run_of(rule, start, &changed, seed);
            assert_eq!(bits(&before[..5]), bits(&after[..5]));
            before[5] != after[5]
        });
        assert!(moves.count() >= 4, "but the next does");
    }
    let (rule, start) = percentile(0.5);
    check(rule, start);
    for solver in [Solver::PaperGrid, Solver::Exact] {
        let (rule, start) = expected_error(solver);
        check(rule, start);
    }
    let (rule, start) = quantile(0.5, 256);
    check(rule, start);
}

// With a fixed threshold, every rule is DP-SGD at the multiplier of the gradient, bit for bit.
#[test]
fn frozen_rule_is_dp_sgd_bit_for_bit() {
    fn trajectory<T: Threshold>(rule: T, start: T::State) -> Vec<u32> {
        let step = step(rule, 1.25, 8);
        let (mut state, mut ledger, mut params) = (state(start, 70), Ledger::volatile(40), vec![0.5; 70]);
        let mut source = normal(3);
        for _ in 0..40 {
            let samples: Vec<Vec<f32>> =
                (0..8).map(|_| (0..70).map(|_| (0.2 * source.draw()) as f32).collect()).collect();
            assert_eq!(take(&step, &mut state, &mut ledger, &samples, &mut params, 5), 0.7);
        }
        bits(&params)
    }
    let at = Bounds::new(0.7, 0.7).unwrap();
    let plain = trajectory(Fixed(0.7), ());
    let (rule, start) = percentile(0.5);
    assert_eq!(plain, trajectory(rule.within(at), start));
    for solver in [Solver::PaperGrid, Solver::Exact] {
        let (rule, start) = expected_error(solver);
        assert_eq!(plain, trajectory(rule.within(at, Bounds::default()), start));
    }
    let (rule, start) = quantile(0.5, 8);
    assert_eq!(plain, trajectory(rule.within(at), start));
}

#[test]
fn empty_batch_releases_sum_and_counts() {
    let (rule, start) = percentile(0.5);
    let (grad, counts) = first(rule, start, &[], 3);
    assert!(grad.iter().all(|g| *g != 0.0));
    assert!(counts.len() == 20 && counts.iter().all(|count| *count != 0.0), "{counts:?}");
    let (grad, counts) = first(Quantile::new(0.5, 0.2, 2.5).unwrap(), QuantileState::new(1.0).unwrap(), &[], 3);
    assert!(grad[0] != 0.0 && counts.len() == 1 && counts[0] != 0.0);
}

/// 40,000 released counts of empty batches. Their standard deviation has a standard error of 0.35 %, and the bound is 6
/// of them.
#[test]
fn count_noise_has_charged_multiplier() {
    let (rule, start) = expected_error(Solver::PaperGrid);
    let (_, state) = run(rule, start, &vec![vec![]; 2000]);
    let counts: Vec<f64> = state.threshold.counts.concat();
    let (mean, deviation) = mean_and_deviation(&counts);
    assert_eq!(counts.len(), 40_000);
    assert!((deviation / 5.0 - 1.0).abs() < 0.021 && mean.abs() < 0.15, "{mean} {deviation}");
}

/// The raw histogram's error falls to zero in about half of the steps. No step may hang, and no clip may leave its
/// bounds.
#[test]
fn noise_counts_keep_clip_in_bounds() {
    for solver in [Solver::PaperGrid, Solver::Exact] {
        let (rule, start) = expected_error(solver);
        let (clips, state) = run(rule, start, &vec![vec![]; 4000]);
        assert!(clips.iter().all(|clip| (1e-8..=1e8).contains(clip)));
        assert!((1e-8..=1e8).contains(&state.threshold.state.range()));
    }
    let (clips, _) = run(percentile(0.5).0, percentile(0.5).1, &vec![vec![]; 4000]);
    assert!(clips.iter().all(|clip| (1e-8..=1e8).contains(clip)));
}
