//! How parameters follow the released gradient.

use super::choosing;
use crate::border::{Idle, Vector};
use crate::run::{Run, Slot};
use crate::status::{Answer, Status, status};
use damper_core::error::{CallError, ConfigError};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamBcStep, AdamState, AdamStep,
    Begin, Optimizer, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::private::Released;

type Momentum = SgdState<Vector<f32>>;

/// An optimizer and its memory.
pub(crate) enum OptimizerState {
    None,
    Sgd(Sgd, Momentum),
    Adam(Adam, AdamState<Vector<f32>>),
    AdamBc(AdamBc, AdamBcState<Vector<f32>>),
    AdaGrad(AdaGrad, AdaGradState<Vector<f32>>),
    RmsProp(RmsProp, RmsPropState<Vector<f32>>),
    AdaGradNorm(AdaGradNorm<Sgd>, AdaGradNormState<Momentum>),
}

impl OptimizerState {
    /// SGD without momentum.
    pub(crate) fn plain() -> Result<Self, ConfigError> {
        Ok(Self::Sgd(Sgd::new(0.0, false, 0.0)?, SgdState { momentum: &mut [] }))
    }
}

/// What the pieces of a step share.
#[derive(Clone, Copy)]
pub(crate) enum OptimizerStep {
    None,
    Rate(f32),
    Adam(AdamStep),
    AdamBc(AdamBcStep),
}

/// An optimizer as functions of its state. That of another is not what they are given; with it they do nothing.
pub(crate) struct OptimizerFns {
    check: fn(&OptimizerState, usize) -> Result<(), CallError>,
    looks_ahead: bool,
    look: fn(&mut OptimizerState, usize, &Released<'_>),
    begin: fn(&mut OptimizerState, Begin) -> OptimizerStep,
    update: fn(OptimizerStep, &mut OptimizerState, usize, &mut [f32], &Released<'_>, &Released<'_>),
    end: fn(OptimizerStep, &mut OptimizerState, &mut [f32]),
}

const OTHER: CallError = CallError::Order("the state of another optimizer");

/// The functions of the optimizer with this state, whose step is that variant.
macro_rules! functions {
    ($variant:ident, $step:ident, $looks_ahead:literal) => {
        OptimizerFns {
            check: |state, dim| match state {
                OptimizerState::$variant(optimizer, state) => optimizer.check(state, dim),
                _ => Err(OTHER),
            },
            looks_ahead: $looks_ahead,
            look: |state, at, released| {
                if let OptimizerState::$variant(optimizer, state) = state {
                    optimizer.look(state, at, released);
                }
            },
            begin: |state, begin| match state {
                OptimizerState::$variant(optimizer, state) => OptimizerStep::$step(optimizer.begin(state, begin)),
                _ => OptimizerStep::None,
            },
            update: |step, state, at, params, filtered, released| {
                if let (OptimizerStep::$step(step), OptimizerState::$variant(optimizer, state)) = (step, state) {
                    optimizer.update(step, state, at, params, filtered, released);
                }
            },
            end: |step, state, params| {
                if let (OptimizerStep::$step(step), OptimizerState::$variant(optimizer, state)) = (step, state) {
                    optimizer.end(step, state, params);
                }
            },
        }
    };
}

static SGD: OptimizerFns = functions!(Sgd, Rate, false);
static ADAM: OptimizerFns = functions!(Adam, Adam, false);
static ADAM_BC: OptimizerFns = functions!(AdamBc, AdamBc, false);
static ADAGRAD: OptimizerFns = functions!(AdaGrad, Rate, false);
static RMSPROP: OptimizerFns = functions!(RmsProp, Rate, false);
static ADAGRAD_NORM: OptimizerFns = functions!(AdaGradNorm, Rate, true);

/// The optimizer that was chosen.
#[derive(Clone, Copy)]
pub(crate) struct OptimizerSlot(&'static OptimizerFns);

impl OptimizerSlot {
    pub(crate) const SGD: Self = Self(&SGD);
}

impl Optimizer<OptimizerState> for OptimizerSlot {
    type Step = OptimizerStep;

    fn check(&self, state: &OptimizerState, dim: usize) -> Result<(), CallError> {
        (self.0.check)(state, dim)
    }

    fn looks_ahead(&self) -> bool {
        self.0.looks_ahead
    }

    fn look(&self, state: &mut OptimizerState, at: usize, released: &Released<'_>) {
        (self.0.look)(state, at, released);
    }

    fn begin(&self, state: &mut OptimizerState, begin: Begin) -> OptimizerStep {
        (self.0.begin)(state, begin)
    }

    fn update(
        &self,
        step: OptimizerStep,
        state: &mut OptimizerState,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        (self.0.update)(step, state, at, params, filtered, released);
    }

    fn end(&self, step: OptimizerStep, state: &mut OptimizerState, params: &mut [f32]) {
        (self.0.end)(step, state, params);
    }
}

/// Fills the slot with the optimizer that `made` is, and with what `remember` makes of it.
unsafe fn choose<O>(
    run: *mut Run,
    functions: &'static OptimizerFns,
    made: Result<O, ConfigError>,
    remember: impl FnOnce(O, &mut Idle<'_>) -> Answer<OptimizerState>,
) -> Status {
    // SAFETY: the caller's contract.
    let answer = unsafe { choosing(run, Slot::Optimizer) }.and_then(|mut idle| {
        let optimizer = made.map_err(|error| idle.head.refuse(error))?;
        idle.body.state.optimizer = idle.attempt(|idle| remember(optimizer, idle))?;
        idle.fill(Slot::Optimizer, |choices| choices.optimizer = OptimizerSlot(functions))
    });
    status(answer)
}

fn momentum(sgd: &Sgd, idle: &mut Idle<'_>) -> Answer<Momentum> {
    let vectors = sgd.momentum_len(idle.head.dim).min(1);
    Ok(SgdState { momentum: idle.vectors(vectors)? })
}

/// SGD with `momentum` in [0, 1), Nesterov's form if `nesterov` is not 0, and weight decay. Takes 1 vector, none
/// without momentum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_sgd(run: *mut Run, momentum: f32, nesterov: u32, weight_decay: f32) -> Status {
    let made = Sgd::new(momentum, nesterov != 0, weight_decay);
    // SAFETY: the contract of the header.
    unsafe { choose(run, &SGD, made, |sgd, idle| Ok(OptimizerState::Sgd(sgd, self::momentum(&sgd, idle)?))) }
}

/// Adam with `beta1`, `beta2` in [0, 1), `epsilon` above 0 and decoupled weight decay (AdamW). The second moment is of
/// the released gradient, or, if `filtered_second_moment` is not 0, of the filtered one (DiSK's Adam). Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    epsilon: f32,
    weight_decay: f64,
    filtered_second_moment: u32,
) -> Status {
    let made = Adam::new(beta1, beta2, epsilon, weight_decay);
    let made = made.map(|adam| if filtered_second_moment == 0 { adam } else { adam.with_filtered_second_moment() });
    let remember =
        |adam, idle: &mut Idle<'_>| Ok(OptimizerState::Adam(adam, AdamState::new(idle.vectors(1)?, idle.vectors(1)?)));
    // SAFETY: the contract of the header.
    unsafe { choose(run, &ADAM, made, remember) }
}

/// DP-AdamBC: Adam whose second moment has the noise's share subtracted, kept above `floor` (a squared gradient, above
/// 0), and, if `floor_by_noise` is not 0, above what the noise spreads by. Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam_bc(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    floor: f32,
    weight_decay: f64,
    floor_by_noise: u32,
) -> Status {
    let made = AdamBc::new(beta1, beta2, floor, weight_decay);
    let made = made.map(|adam| if floor_by_noise == 0 { adam } else { adam.with_floor_by_noise() });
    let remember = |adam, idle: &mut Idle<'_>| {
        Ok(OptimizerState::AdamBc(adam, AdamBcState::new(idle.vectors(1)?, idle.vectors(1)?)))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &ADAM_BC, made, remember) }
}

/// AdaGrad with `epsilon` above 0 (PyTorch: 1e-10) and weight decay, added to the gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adagrad(run: *mut Run, epsilon: f32, weight_decay: f32) -> Status {
    let made = AdaGrad::new(epsilon, weight_decay);
    let remember =
        |adagrad, idle: &mut Idle<'_>| Ok(OptimizerState::AdaGrad(adagrad, AdaGradState { sum: idle.vectors(1)? }));
    // SAFETY: the contract of the header.
    unsafe { choose(run, &ADAGRAD, made, remember) }
}

/// RMSprop with `alpha` in [0, 1) (PyTorch: 0.99), `epsilon` above 0 (PyTorch: 1e-8) and weight decay, added to the
/// gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_rmsprop(run: *mut Run, alpha: f64, epsilon: f32, weight_decay: f32) -> Status {
    let made = RmsProp::new(alpha, epsilon, weight_decay);
    let remember =
        |rmsprop, idle: &mut Idle<'_>| Ok(OptimizerState::RmsProp(rmsprop, RmsPropState { second: idle.vectors(1)? }));
    // SAFETY: the contract of the header.
    unsafe { choose(run, &RMSPROP, made, remember) }
}

/// AdaGrad-norm over SGD: the step is divided by the root of `initial` (b_0^2, not negative) and all squared norms of
/// released gradients, each at least `floor` (above 0), less the noise's known share if `subtract_noise` is not 0.
/// SGD's numbers and vectors as in `damper_choose_sgd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adagrad_norm(
    run: *mut Run,
    initial: f64,
    floor: f64,
    subtract_noise: u32,
    momentum: f32,
    nesterov: u32,
    weight_decay: f32,
) -> Status {
    let sgd = Sgd::new(momentum, nesterov != 0, weight_decay);
    let made = sgd.and_then(|sgd| Ok((AdaGradNorm::new(initial, floor, subtract_noise != 0, sgd)?, sgd)));
    let remember = |(optimizer, sgd), idle: &mut Idle<'_>| {
        let inner = self::momentum(&sgd, idle)?;
        Ok(OptimizerState::AdaGradNorm(optimizer, AdaGradNormState::new(inner)))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &ADAGRAD_NORM, made, remember) }
}
