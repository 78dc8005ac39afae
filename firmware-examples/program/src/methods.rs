//! Every method of the papers on the device: a short run of each on the digits in flash, in fixed memory. The program
//! has only one step, whose slots are filled at run time.
//!
//! # Memory
//!
//! Eight vectors of `DIM` 32-bit words: 20.8 KB.

use crate::digits::{self, TRAIN};
use crate::softmax::{self, DIM};
use damper_core::accounting::{Ledger, Rate};
use damper_core::clip::{Automatic, Layer, Layers};
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState,
};
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::slots::{
    AnyClip, AnyFilter, AnyOptimizer, AnySchedule, AnyState, AnyStep, AnyThreshold, FilterSlot, OptimizerSlot,
    StatefulSlot, ThresholdSlot,
};
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
};

/// Steps of each run.
pub const STEPS: u32 = 6;

const EXPECTED_BATCH: u32 = 30;

/// Trains and returns the digest of the parameters, or `None` if a call was refused.
fn train(
    work: &mut Work,
    clip: AnyClip<'_>,
    threshold: &mut dyn AnyThreshold,
    filter: &mut dyn AnyFilter,
    optimizer: &mut dyn AnyOptimizer,
    schedule: &AnySchedule,
) -> Option<u64> {
    let rate = Rate::of(u64::from(EXPECTED_BATCH), u64::from(TRAIN)).ok()?;
    let step: AnyStep<'_, _> = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).ok()?, 1.0).ok()?,
        clip,
        threshold: ThresholdSlot::of(threshold),
        filter: FilterSlot::of(filter),
        optimizer: OptimizerSlot::of(optimizer),
        schedule,
        expected_batch: EXPECTED_BATCH,
    })
    .ok()?;
    let generator = ChaCha20::<1>::simulation(2026);
    let mut ledger = Ledger::volatile(STEPS);
    let Work { sum, params, point, grad, mixed } = work;
    let mut state: AnyState<'_, _> = StepState::new(sum, filter, optimizer, threshold);
    while let Ok(mut open) = step.open(&mut state, &mut ledger) {
        // By reference, because a loop that takes the draw moves it with its random words.
        for digit in poisson(&generator, open.number(), rate, TRAIN).by_ref().filter_map(digits::train) {
            let mut mixing = open.add_points(mixed).ok()?;
            while mixing.next_eval_point(params, point).ok()? {
                softmax::gradient(point, digit, grad);
                mixing.eval_point(&[&grad[..]]).ok()?;
            }
            mixing.add().ok()?;
        }
        open.finish(params, &generator).ok()?;
    }
    (ledger.charged_steps() == STEPS).then(|| Digest::of(params).value())
}

type Vector = [f32; DIM];

/// Buffers of every run, which are zero at its start.
struct Work {
    sum: [SumWord<i32>; DIM],
    params: Vector,
    point: Vector,
    grad: Vector,
    mixed: Vector,
}

/// Zeros for filters and optimizers.
type Vectors = [Vector; 3];

/// SGD with momentum 0.9.
fn momentum(memory: &mut Vector) -> Option<StatefulSlot<Sgd, SgdState<&mut [f32]>, f32>> {
    Some(StatefulSlot::optimizer(Sgd::new(0.9, false, 0.0).ok()?, SgdState { momentum: memory }))
}

/// DP-SGD without momentum, and with this filter.
#[inline(never)]
fn with_filter(work: &mut Work, filter: &mut dyn AnyFilter) -> Option<u64> {
    let (fixed, plain) = (&mut StatefulSlot::threshold(Fixed(1.0), ()), Sgd::new(0.0, false, 0.0).ok()?);
    let optimizer = &mut StatefulSlot::optimizer(plain, SgdState { momentum: &mut [][..] });
    train(work, AnyClip::FLAT, fixed, filter, optimizer, &AnySchedule::constant(2.0))
}

/// DP-SGD with this optimizer.
#[inline(never)]
fn with_optimizer(work: &mut Work, optimizer: &mut dyn AnyOptimizer, learning_rate: f64) -> Option<u64> {
    let (fixed, identity) = (&mut StatefulSlot::threshold(Fixed(1.0), ()), &mut StatefulSlot::filter(Identity, ()));
    train(work, AnyClip::FLAT, fixed, identity, optimizer, &AnySchedule::constant(learning_rate))
}

/// DP-SGD with momentum, and with this rule of clipping and this schedule.
#[inline(never)]
fn with_clip(work: &mut Work, memory: &mut Vector, clip: AnyClip<'_>, schedule: &AnySchedule) -> Option<u64> {
    let (fixed, identity) = (&mut StatefulSlot::threshold(Fixed(1.0), ()), &mut StatefulSlot::filter(Identity, ()));
    train(work, clip, fixed, identity, &mut momentum(memory)?, schedule)
}

/// DP-SGD with momentum, and with this threshold.
#[inline(never)]
fn with_threshold(work: &mut Work, memory: &mut Vector, threshold: &mut dyn AnyThreshold) -> Option<u64> {
    let identity = &mut StatefulSlot::filter(Identity, ());
    train(work, AnyClip::FLAT, threshold, identity, &mut momentum(memory)?, &AnySchedule::constant(0.5))
}

fn adp([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let schedule = Declared {
        learning_rate: LearningRate::new(2.0, 1, Decay::Polynomial { offset: 2.0, slope: 1.0 }).ok()?,
        noise: NoiseSchedule::Matched { exponent: 0.5 },
    };
    with_clip(work, memory, AnyClip::FLAT, &AnySchedule::declared(schedule))
}

fn automatic([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    with_clip(work, memory, AnyClip::automatic(Automatic::new(0.01).ok()?), &AnySchedule::constant(0.5))
}

fn per_layer([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let layers = [Layer::equal(DIM - 10, 2), Layer::equal(10, 2)];
    let clip = AnyClip::FLAT.by_layer(Layers::new(&layers).ok()?);
    with_clip(work, memory, clip, &AnySchedule::constant(0.5))
}

type Recursive<'a> = StatefulSlot<Iir<2>, IirState<&'a mut [f32], 2>, damper_core::filter::IirStep>;

fn iir<'a>(a: &[f32], b: &[f32], memory: &'a mut [f32]) -> Option<Recursive<'a>> {
    Some(StatefulSlot::filter(Iir::new(a, b).ok()?, IirState::new(memory)))
}

/// The filter with these coefficients.
#[inline(never)]
fn recursive(work: &mut Work, a: &[f32], b: &[f32], memory: &mut [f32]) -> Option<u64> {
    with_filter(work, &mut iir(a, b, memory)?)
}

fn doppler([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    recursive(work, &[-0.9], &[0.15, -0.05], memory)
}

fn order_0(_: &mut Vectors, work: &mut Work) -> Option<u64> {
    recursive(work, &[], &[1.0], &mut [])
}

fn kalman([filtered, moved, _]: &mut Vectors, work: &mut Work, look_ahead: LookAhead) -> Option<u64> {
    let filter = Kalman::new(Gain::Constant(0.7), look_ahead).ok()?;
    with_filter(work, &mut StatefulSlot::filter(filter, KalmanState::new(&filter, filtered, moved)))
}

fn dp_pmlf([memory, past @ ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let mut inner = iir(&[-0.9], &[0.15, -0.05], memory)?;
    let filter = PerSampleMomentum::<_, 3>::new(3, 0.5, FilterSlot::of(&inner)).ok()?;
    let inner: &mut dyn AnyFilter = &mut inner;
    with_filter(work, &mut StatefulSlot::filter(filter, PerSampleMomentumState::new(past.as_flattened_mut(), inner)))
}

fn inner_outer([memory, past, _]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let mut inner = StatefulSlot::filter(Identity, ());
    let filter = PerSampleMomentum::<_, 3>::unnormalised(2, 0.9, FilterSlot::of(&inner)).ok()?;
    let inner: &mut dyn AnyFilter = &mut inner;
    let filter = &mut StatefulSlot::filter(filter, PerSampleMomentumState::new(&mut past[..], inner));
    let fixed = &mut StatefulSlot::threshold(Fixed(1.0), ());
    train(work, AnyClip::FLAT, fixed, filter, &mut momentum(memory)?, &AnySchedule::constant(0.5))
}

fn dc_sgd_p([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let rule = Percentile::<20>::new(0.5, CountNoise::new(5.0).ok()?).ok()?;
    with_threshold(work, memory, &mut StatefulSlot::threshold(rule, PercentileState::new(1.0, 1.0).ok()?))
}

fn dc_sgd_e([memory, ..]: &mut Vectors, work: &mut Work, solver: Solver) -> Option<u64> {
    let rule = ExpectedError::<20>::new(solver, CountNoise::new(5.0).ok()?).ok()?;
    with_threshold(work, memory, &mut StatefulSlot::threshold(rule, ExpectedErrorState::new(1.0, 20.0).ok()?))
}

fn quantile([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let rule = Quantile::new(0.5, 0.2, 1.5).ok()?;
    with_threshold(work, memory, &mut StatefulSlot::threshold(rule, QuantileState::new(1.0).ok()?))
}

fn nesterov([momentum, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let sgd = Sgd::new(0.9, true, 0.0).ok()?;
    with_optimizer(work, &mut StatefulSlot::optimizer(sgd, SgdState { momentum: &mut momentum[..] }), 0.5)
}

fn adamw([first, second, _]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let adam = Adam::new(0.9, 0.999, 1e-8, 0.01).ok()?;
    with_optimizer(work, &mut StatefulSlot::optimizer(adam, AdamState::new(first, second)), 0.02)
}

fn adam_bc([first, second, _]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let adam = AdamBc::new(0.9, 0.999, 1e-6, 0.0).ok()?;
    with_optimizer(work, &mut StatefulSlot::optimizer(adam, AdamBcState::new(first, second)), 0.02)
}

fn adagrad([sum, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let adagrad = AdaGrad::new(1e-10, 0.0).ok()?;
    with_optimizer(work, &mut StatefulSlot::optimizer(adagrad, AdaGradState { sum }), 0.1)
}

fn rmsprop([second, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let rmsprop = RmsProp::new(0.99, 1e-8, 0.0).ok()?;
    with_optimizer(work, &mut StatefulSlot::optimizer(rmsprop, RmsPropState { second }), 0.02)
}

fn adagrad_norm([memory, ..]: &mut Vectors, work: &mut Work) -> Option<u64> {
    let mut inner = momentum(memory)?;
    let optimizer = AdaGradNorm::new(1.0, 1e-5, true, OptimizerSlot::of(&inner)).ok()?;
    let inner: &mut dyn AnyOptimizer = &mut inner;
    with_optimizer(work, &mut StatefulSlot::optimizer(optimizer, AdaGradNormState::new(inner)), 2.0)
}

/// A method, and the digest of its run on every target.
pub struct MethodCase {
    run: fn(&mut Vectors, &mut Work) -> Option<u64>,
    /// The digest of the parameters at the end.
    pub digest: u64,
}

impl MethodCase {
    /// Runs the method. Returns the digest of the parameters at the end, or `None` if a call was refused.
    #[must_use]
    pub fn run(&self) -> Option<u64> {
        let zeros = [0.0; DIM];
        let work = &mut Work { sum: [SumWord::ZERO; DIM], params: zeros, point: zeros, grad: zeros, mixed: zeros };
        (self.run)(&mut [zeros; 3], work)
    }
}

/// Two tables from one list, so that a program that does not print the names does not link them.
macro_rules! methods {
    ($($name:literal: $run:expr, $digest:literal;)*) => {
        /// Every method.
        pub static METHODS: [MethodCase; 20] = [$(MethodCase { run: $run, digest: $digest }),*];
        /// Their names.
        pub static NAMES: [&str; METHODS.len()] = [$($name),*];
    };
}

methods! {
    "dp-sgd": |_, work| with_filter(work, &mut StatefulSlot::filter(Identity, ())), 0xabb3_3465_50a4_8ac0;
    "doppler": doppler, 0x20a9_40d1_17ba_8ace;
    "dp-pmlf": dp_pmlf, 0x4a1b_7553_6601_8a04;
    "disk": |vectors, work| kalman(vectors, work, LookAhead::One), 0x2145_e260_5cf5_1fc7;
    "disk, two points": |vectors, work| kalman(vectors, work, LookAhead::Two { gamma: 0.5 }), 0xbedd_9684_4bd2_1e50;
    "dc-sgd-p": dc_sgd_p, 0xfef7_77d1_cf66_8011;
    "dc-sgd-e": |vectors, work| dc_sgd_e(vectors, work, Solver::PaperGrid), 0x2575_9273_a6fc_09d0;
    "dc-sgd-e, exact": |vectors, work| dc_sgd_e(vectors, work, Solver::Exact), 0xe33b_0922_bc6f_3810;
    "adp": adp, 0xd951_08cd_76ae_1752;
    "quantile": quantile, 0x2f67_5661_d728_4719;
    "inner-outer": inner_outer, 0x7ad3_0919_8c13_1aa0;
    "automatic": automatic, 0x9ec0_87a4_db98_f7f8;
    "per-layer": per_layer, 0x706d_a298_b9cc_9396;
    "nesterov": nesterov, 0x990e_0abd_eca1_5bdc;
    "adamw": adamw, 0xd477_a698_81b7_b15a;
    "adam-bc": adam_bc, 0x9e15_4b68_a30e_dc8a;
    "adagrad": adagrad, 0x25e4_4e6f_c63c_960f;
    "rmsprop": rmsprop, 0x2e33_ed94_7daf_5dc6;
    "adagrad-norm": adagrad_norm, 0xff69_f74e_f7ee_f5ea;
    "filter of order 0": order_0, 0xabb3_3465_50a4_8ac0;
}
