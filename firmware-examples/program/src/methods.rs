//! Every method of the papers on the device: a short run of each on the digits in flash, in fixed memory.
//!
//! # Memory
//!
//! At most eleven vectors of `DIM` words at a time (DP-PMLF with three iterates): 28.6 KB.

use crate::digits::{self, TRAIN};
use crate::softmax::{self, DIM};
use damper_core::accounting::{Ledger, Rate, Volatile};
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::filter::{
    Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Optimizer, RmsProp,
    RmsPropState, Sgd, SgdState,
};
use damper_core::sampling::poisson;
use damper_core::schedule::{Constant, Decay, Declared, LearningRate, NoiseSchedule, Schedule};
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
    Threshold,
};

/// Steps of each run.
pub const STEPS: u32 = 6;

type Zeros = [f32; DIM];
const ZEROS: Zeros = [0.0; DIM];

/// The digest of the parameters that a run ends with; `None` where anything was refused.
fn train<C: Clip, T: Threshold, F: Filter<FS>, FS, O: Optimizer<OS>, OS, S: Schedule>(
    slots: Slots<DiscreteGaussian<i32>, C, T, F, O, S>,
    filter: FS,
    threshold: T::State,
    optimizer: OS,
) -> Option<u64> {
    let rate = Rate::of(u64::from(slots.expected_batch), u64::from(TRAIN)).ok()?;
    let step = PrivateStep::new(slots).ok()?;
    let generator = ChaCha20::<1>::simulation(2026);
    let mut ledger = Ledger::new(STEPS);
    let mut state = StepState { sum: [0; DIM], filter, threshold, optimizer };
    let (mut params, mut point, mut grad, mut mixed) = (ZEROS, ZEROS, ZEROS, ZEROS);
    while let Ok(mut open) = step.open(&mut state, &mut ledger, &mut Volatile) {
        for digit in poisson(&generator, open.number(), rate, TRAIN).filter_map(digits::train) {
            let mut mixing = open.add_points(&mut mixed).ok()?;
            while mixing.next_point(&params, &mut point).ok()? {
                softmax::gradient(&point, digit, &mut grad);
                mixing.point(&[&grad]).ok()?;
            }
            mixing.add().ok()?;
        }
        open.finish(&mut params, &generator).ok()?;
    }
    (ledger.paid() == STEPS).then(|| Digest::of(&params).value())
}

/// DP-SGD: what the methods change one slot of.
fn dp_sgd<O>(optimizer: O, lr: f64) -> Option<Slots<DiscreteGaussian<i32>, FlatL2, Fixed, Identity, O, Constant>> {
    Some(Slots {
        mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).ok()?, 1.0).ok()?,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer,
        schedule: Constant(lr),
        expected_batch: 30,
    })
}

fn momentum() -> Option<Sgd> {
    Sgd::new(0.9, false, 0.0).ok()
}

fn with_filter<F: Filter<FS>, FS>(filter: F, state: FS) -> Option<u64> {
    let Slots { mechanism, clip, threshold, optimizer, schedule, expected_batch, .. } =
        dp_sgd(Sgd::new(0.0, false, 0.0).ok()?, 2.0)?;
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch };
    train(slots, state, (), SgdState { momentum: [] })
}

fn with_clip<C: Clip>(clip: C) -> Option<u64> {
    let Slots { mechanism, threshold, filter, optimizer, schedule, expected_batch, .. } = dp_sgd(momentum()?, 0.5)?;
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch };
    train(slots, (), (), SgdState { momentum: ZEROS })
}

fn with_threshold<T: Threshold>(threshold: T, state: T::State) -> Option<u64> {
    let Slots { mechanism, clip, filter, optimizer, schedule, expected_batch, .. } = dp_sgd(momentum()?, 0.5)?;
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch };
    train(slots, (), state, SgdState { momentum: ZEROS })
}

fn with_optimizer<O: Optimizer<S>, S>(optimizer: O, state: S, lr: f64) -> Option<u64> {
    train(dp_sgd(optimizer, lr)?, (), (), state)
}

fn adp() -> Option<u64> {
    let Slots { mechanism, clip, threshold, filter, optimizer, expected_batch, .. } = dp_sgd(momentum()?, 2.0)?;
    let schedule = Declared {
        learning_rate: LearningRate::new(2.0, 1, Decay::Polynomial { offset: 2.0, slope: 1.0 }).ok()?,
        noise: NoiseSchedule::Matched { exponent: 0.5 },
    };
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch };
    train(slots, (), (), SgdState { momentum: ZEROS })
}

fn per_layer() -> Option<u64> {
    let layers = [Layer::equal(DIM - 10, 2), Layer::equal(10, 2)];
    with_clip(PerLayer::new(FlatL2, Layers::new(&layers).ok()?).ok()?)
}

fn iir() -> Option<Iir<2>> {
    Iir::new(&[-0.9], &[0.15, -0.05]).ok()
}

fn kalman(look_ahead: LookAhead) -> Option<u64> {
    let filter = Kalman::new(Gain::Constant(0.7), look_ahead).ok()?;
    let state = KalmanState::new(&filter, ZEROS, ZEROS);
    with_filter(filter, state)
}

fn dp_pmlf() -> Option<u64> {
    let filter = PerSampleMomentum::<_, 3>::new(3, 0.5, iir()?).ok()?;
    with_filter(filter, PerSampleMomentumState::new([0.0; 2 * DIM], IirState::new(ZEROS)))
}

fn inner_outer() -> Option<u64> {
    let Slots { mechanism, clip, threshold, optimizer, schedule, expected_batch, .. } = dp_sgd(momentum()?, 0.5)?;
    let filter = PerSampleMomentum::<_, 2>::unnormalised(2, 0.9, Identity).ok()?;
    let slots = Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch };
    train(slots, PerSampleMomentumState::new(ZEROS, ()), (), SgdState { momentum: ZEROS })
}

fn dc_sgd(solver: Solver) -> Option<u64> {
    let rule = ExpectedError::<20>::new(solver, CountNoise::new(5.0).ok()?).ok()?;
    with_threshold(rule, ExpectedErrorState::new(1.0, 20.0).ok()?)
}

fn dc_sgd_p() -> Option<u64> {
    let rule = Percentile::<20>::new(0.5, CountNoise::new(5.0).ok()?).ok()?;
    with_threshold(rule, PercentileState::new(1.0, 1.0).ok()?)
}

fn adagrad_norm() -> Option<u64> {
    let optimizer = AdaGradNorm::new(1.0, 1e-5, true, momentum()?).ok()?;
    with_optimizer(optimizer, AdaGradNormState::new(SgdState { momentum: ZEROS }), 2.0)
}

/// One run of a method.
pub type Run = fn() -> Option<u64>;

/// Every method with the digest that its run ends with on every target.
pub const METHODS: [(&str, Run, u64); 20] = [
    ("dp-sgd", || with_filter(Identity, ()), 0xed01_5f9f_e6a1_f661),
    ("doppler", || with_filter(iir()?, IirState::new(ZEROS)), 0x1874_745d_b6b1_2a36),
    ("dp-pmlf", dp_pmlf, 0x478d_6aa0_36bc_d0bd),
    ("disk", || kalman(LookAhead::One), 0x9d06_6b01_6c49_bd24),
    ("disk, two points", || kalman(LookAhead::Two { gamma: 0.5 }), 0x81b7_6b4e_b38e_0d2e),
    ("dc-sgd-p", dc_sgd_p, 0x09e8_0040_96c0_d7f3),
    ("dc-sgd-e", || dc_sgd(Solver::PaperGrid), 0xa94f_6b27_ba6e_d48b),
    ("dc-sgd-e, exact", || dc_sgd(Solver::Exact), 0xf032_6eec_e077_e318),
    ("adp", adp, 0xb90e_e412_bff8_2f4b),
    (
        "quantile",
        || with_threshold(Quantile::new(0.5, 0.2, 1.5).ok()?, QuantileState::new(1.0).ok()?),
        0xa6f2_9f30_8985_05d3,
    ),
    ("inner-outer", inner_outer, 0xf863_f093_babf_ba29),
    ("automatic", || with_clip(Automatic::new(0.01).ok()?), 0xedd1_1573_269e_077a),
    ("per-layer", per_layer, 0x7ab9_9c8c_e0c1_5ee6),
    (
        "nesterov",
        || with_optimizer(Sgd::new(0.9, true, 0.0).ok()?, SgdState { momentum: ZEROS }, 0.5),
        0xeb34_a92e_10ae_d037,
    ),
    (
        "adamw",
        || with_optimizer(Adam::new(0.9, 0.999, 1e-8, 0.01).ok()?, AdamState::new(ZEROS, ZEROS), 0.02),
        0x2771_0aa6_7821_2fb4,
    ),
    (
        "adam-bc",
        || with_optimizer(AdamBc::new(0.9, 0.999, 1e-6, 0.0).ok()?, AdamBcState::new(ZEROS, ZEROS), 0.02),
        0x5195_b967_2c05_c6d2,
    ),
    (
        "adagrad",
        || with_optimizer(AdaGrad::new(1e-10, 0.0).ok()?, AdaGradState { sum: ZEROS }, 0.1),
        0x4d15_31df_69a1_49a7,
    ),
    (
        "rmsprop",
        || with_optimizer(RmsProp::new(0.99, 1e-8, 0.0).ok()?, RmsPropState { second: ZEROS }, 0.02),
        0xcc47_4e49_0bb5_0a94,
    ),
    ("adagrad-norm", adagrad_norm, 0x3e86_c2d0_f0b4_2e96),
    ("filter of order 0", || with_filter(Iir::<2>::new(&[], &[1.0]).ok()?, IirState::new([])), 0xed01_5f9f_e6a1_f661),
];
