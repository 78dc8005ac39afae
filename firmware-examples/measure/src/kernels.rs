//! The parts of a step on `DIM` parameters, each between its marks.
//!
//! A step is finished with an optimizer that does not change the parameters. The cost of another optimizer or filter is
//! the difference of its finish from that, with the same noise.

use core::hint::black_box;
use damper_core::accounting::Ledger;
use damper_core::error::CallError;
use damper_core::filter::{
    Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::noise::ChaCha20;
use damper_core::optimizer::{
    AdaGrad, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Begin, Optimizer, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::private::{Released, SumWord};
use damper_core::step::StepState;
use damper_firmware_program::mark::{self, CountedRegion};
use damper_firmware_program::step;

/// Parameters.
pub const DIM: usize = 256;

const ZEROS: [f32; DIM] = [0.0; DIM];

/// Optimizer that does not change the parameters.
#[derive(Clone)]
struct Still;

impl Optimizer<()> for Still {
    type Step = ();

    fn check(&self, (): &(), _dim: usize) -> Result<(), CallError> {
        Ok(())
    }

    fn begin(&self, (): &mut (), _begin: Begin) {}

    fn update(&self, (): (), (): &mut (), _: usize, _: &mut [f32], filtered: &Released<'_>, _: &Released<'_>) {
        // Forces the computation of the filtered gradient.
        black_box(filtered.grad());
    }
}

/// Takes three steps, the last two with their finish between the marks. The first fills histories.
#[inline(never)]
fn finish<F: Filter<FS>, FS, O: Optimizer<OS>, OS>(
    region: CountedRegion,
    filter: F,
    filter_state: FS,
    optimizer: O,
    optimizer_state: OS,
) -> Option<()> {
    let step = step::with(filter, optimizer)?;
    let generator = ChaCha20::<1>::simulation(black_box(7));
    let mut ledger = Ledger::volatile(black_box(3));
    let mut state = StepState::new([SumWord::ZERO; DIM], filter_state, optimizer_state, ());
    let mut params = ZEROS;
    while let Ok(open) = step.open(&mut state, &mut ledger) {
        if open.number() == 0 {
            open.finish(black_box(&mut params[..]), &generator).ok()?;
        } else {
            region.of(|| open.finish(black_box(&mut params[..]), &generator)).ok()?;
        }
    }
    black_box(&params);
    (ledger.charged_steps() == 3).then_some(())
}

/// A gradient that is clipped. An eighth of it is not.
fn gradient() -> [f32; DIM] {
    let mut grad = ZEROS;
    for (i, grad) in grad.iter_mut().enumerate() {
        *grad = ((i * 37 % 101) as f32 - 50.0) / 400.0;
    }
    grad
}

/// Adds one sample of `DIM` coordinates that is clipped, and one that is not. Both are between the marks.
#[inline(never)]
fn add() -> Option<()> {
    let step = step::with(Identity, Still)?;
    let mut grad = gradient();
    let mut state = StepState::new([SumWord::ZERO; DIM], (), (), ());
    let mut ledger = Ledger::volatile(1);
    let mut open = step.open(&mut state, &mut ledger).ok()?;
    for _ in 0..2 {
        mark::ADD.of(|| open.add_combined(&[black_box(&grad[..])])).ok()?;
        grad.iter_mut().for_each(|grad| *grad *= 0.125);
    }
    Some(())
}

type Pmlf = PerSampleMomentum<Iir<2>, 2>;
type PmlfState<'a> = PerSampleMomentumState<&'a mut [f32], IirState<&'a mut [f32], 2>>;

/// DP-PMLF with two iterates: one past iterate, and its filter's state.
fn pmlf<'a>(iterates: &'a mut [f32; DIM], memory: &'a mut [f32; DIM]) -> Option<(Pmlf, PmlfState<'a>)> {
    let filter = PerSampleMomentum::new(black_box(2), 0.5, Iir::new(&[black_box(-0.9)], &[0.15, -0.05]).ok()?).ok()?;
    Some((filter, PerSampleMomentumState::new(zeros(iterates), IirState::new(zeros(memory)))))
}

/// State before the first step.
fn zeros(memory: &mut [f32; DIM]) -> &mut [f32] {
    memory.fill(0.0);
    memory
}

/// Adds the same two samples, each at both evaluation points of DP-PMLF. Between the marks are the evaluation and
/// combination of each gradient, and the one clip of each sample.
#[inline(never)]
fn mix() -> Option<()> {
    let (mut iterates, mut memory) = (ZEROS, ZEROS);
    let (filter, filter_state) = pmlf(&mut iterates, &mut memory)?;
    let step = step::with(filter, Still)?;
    let mut state = StepState::new([SumWord::ZERO; DIM], filter_state, (), ());
    let (mut ledger, mut params) = (Ledger::volatile(2), ZEROS);
    let generator = ChaCha20::<1>::simulation(black_box(7));
    let open = step.open(&mut state, &mut ledger).ok()?;
    open.finish(&mut params, &generator).ok()?;
    let (mut grad, mut point, mut mixed) = (gradient(), ZEROS, ZEROS);
    let mut open = step.open(&mut state, &mut ledger).ok()?;
    for _ in 0..2 {
        let add = || {
            let mut mixing = open.add_points(black_box(&mut mixed[..]))?;
            while mixing.next_eval_point(black_box(&params[..]), black_box(&mut point[..]))? {
                mixing.eval_point(&[black_box(&grad[..])])?;
            }
            mixing.add()
        };
        mark::MIX.of(add).ok()?;
        grad.iter_mut().for_each(|grad| *grad *= 0.125);
    }
    Some(())
}

/// Runs them all. Returns `None` if a call was refused.
pub fn run() -> Option<()> {
    add()?;
    mix()?;
    let (mut a, mut b) = (ZEROS, ZEROS);
    finish(mark::STILL, Identity, (), Still, ())?;
    let plain = Sgd::new(black_box(0.0), false, 0.0).ok()?;
    finish(mark::SGD, Identity, (), plain, SgdState { momentum: [] })?;
    let momentum = Sgd::new(black_box(0.9), false, 0.0).ok()?;
    finish(mark::MOMENTUM, Identity, (), momentum, SgdState { momentum: zeros(&mut a) })?;
    let adam = Adam::new(black_box(0.9), 0.999, 1e-8, 0.0).ok()?;
    finish(mark::ADAM, Identity, (), adam, AdamState::new(zeros(&mut a), zeros(&mut b)))?;
    let adam_bc = AdamBc::new(black_box(0.9), 0.999, 1e-6, 0.0).ok()?;
    finish(mark::ADAM_BC, Identity, (), adam_bc, AdamBcState::new(zeros(&mut a), zeros(&mut b)))?;
    let adagrad = AdaGrad::new(black_box(1e-10), 0.0).ok()?;
    finish(mark::ADAGRAD, Identity, (), adagrad, AdaGradState { sum: zeros(&mut a) })?;
    let rmsprop = RmsProp::new(black_box(0.99), 1e-8, 0.0).ok()?;
    finish(mark::RMSPROP, Identity, (), rmsprop, RmsPropState { second: zeros(&mut a) })?;
    let doppler = Iir::<2>::new(&[black_box(-0.9)], &[0.15, -0.05]).ok()?;
    finish(mark::DOPPLER, doppler, IirState::new(zeros(&mut a)), Still, ())?;
    let disk = Kalman::new(Gain::Constant(black_box(0.7)), LookAhead::One).ok()?;
    let state = KalmanState::new(&disk, zeros(&mut a), zeros(&mut b));
    finish(mark::DISK, disk, state, Still, ())?;
    let (pmlf, state) = pmlf(&mut a, &mut b)?;
    finish(mark::PMLF, pmlf, state, Still, ())
}
