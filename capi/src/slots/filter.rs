//! What is done to released gradients, and where gradients are wanted.

use super::choosing;
use crate::border::{self, Idle, Vector};
use crate::run::{Run, Slot};
use crate::status::{Answer, Status, status};
use core::ffi::{CStr, c_char};
use damper_core::error::{CallError, ConfigError};
use damper_core::filter::{
    Filter, Gain, Identity, Iir, IirState, IirStep, Kalman, KalmanState, KalmanStep, LookAhead, PerSampleMomentum,
    PerSampleMomentumState, named,
};
use damper_core::private::Released;

/// The largest order of a recursive filter.
pub const DAMPER_MAX_ORDER: usize = 8;
/// The most iterates of per-sample momentum.
pub const DAMPER_MAX_ITERATES: usize = 8;

type Recursive = IirState<Vector<f32>, DAMPER_MAX_ORDER>;

/// A filter and its memory.
#[allow(clippy::large_enum_variant)] // One of them a run.
pub(crate) enum FilterState {
    Identity(Identity, ()),
    Iir(Iir<DAMPER_MAX_ORDER>, Recursive),
    Kalman(Kalman, KalmanState<Vector<f32>>),
    Momentum(
        PerSampleMomentum<Iir<DAMPER_MAX_ORDER>, DAMPER_MAX_ITERATES>,
        PerSampleMomentumState<Vector<f32>, Recursive>,
    ),
    InnerMomentum(PerSampleMomentum<Identity, DAMPER_MAX_ITERATES>, PerSampleMomentumState<Vector<f32>, ()>),
}

impl FilterState {
    pub(crate) const NONE: Self = Self::Identity(Identity, ());
}

/// What the pieces of a step share.
#[derive(Clone, Copy)]
pub(crate) enum FilterStep {
    None(()),
    Iir(IirStep),
    Kalman(KalmanStep),
}

/// Writes a point and returns its weight.
type PointFn = fn(&FilterState, usize, &[f32], &mut [f32]) -> Result<f32, CallError>;

/// A filter as functions of its state. That of another filter is not what they are given; with it they do nothing.
pub(crate) struct FilterFns {
    points: fn(&FilterState) -> usize,
    point: PointFn,
    weight: fn(&FilterState, usize) -> f32,
    check: fn(&FilterState, usize) -> Result<(), CallError>,
    begin: fn(&mut FilterState) -> FilterStep,
    apply: fn(FilterStep, &mut FilterState, usize, &Released<'_>, &mut [f32]),
    leave: fn(FilterStep, &mut FilterState, usize, &[f32]),
    arrive: fn(FilterStep, &mut FilterState, usize, &[f32]),
}

const OTHER: CallError = CallError::Order("the state of another filter");

/// The functions of the filter with this state, whose step is that variant.
macro_rules! functions {
    ($variant:ident, $step:ident) => {
        FilterFns {
            points: |state| match state {
                FilterState::$variant(filter, state) => filter.points(state),
                _ => 1,
            },
            point: |state, index, params, out| match state {
                FilterState::$variant(filter, state) => filter.point(state, index, params, out),
                _ => Err(OTHER),
            },
            weight: |state, index| match state {
                FilterState::$variant(filter, state) => filter.weight(state, index),
                _ => 1.0,
            },
            check: |state, dim| match state {
                FilterState::$variant(filter, state) => filter.check(state, dim),
                _ => Err(OTHER),
            },
            begin: |state| match state {
                FilterState::$variant(filter, state) => FilterStep::$step(filter.begin(state)),
                _ => FilterStep::None(()),
            },
            apply: |step, state, at, released, filtered| {
                if let (FilterStep::$step(step), FilterState::$variant(filter, state)) = (step, state) {
                    filter.apply(step, state, at, released, filtered);
                }
            },
            leave: |step, state, at, params| {
                if let (FilterStep::$step(step), FilterState::$variant(filter, state)) = (step, state) {
                    filter.leave(step, state, at, params);
                }
            },
            arrive: |step, state, at, params| {
                if let (FilterStep::$step(step), FilterState::$variant(filter, state)) = (step, state) {
                    filter.arrive(step, state, at, params);
                }
            },
        }
    };
}

static IDENTITY: FilterFns = functions!(Identity, None);
static IIR: FilterFns = functions!(Iir, Iir);
static KALMAN: FilterFns = functions!(Kalman, Kalman);
static MOMENTUM: FilterFns = functions!(Momentum, Iir);
static INNER_MOMENTUM: FilterFns = functions!(InnerMomentum, None);

/// The filter that was chosen.
#[derive(Clone, Copy)]
pub(crate) struct FilterSlot(&'static FilterFns);

impl FilterSlot {
    pub(crate) const IDENTITY: Self = Self(&IDENTITY);
}

impl Filter<FilterState> for FilterSlot {
    type Step = FilterStep;

    fn points(&self, state: &FilterState) -> usize {
        (self.0.points)(state)
    }

    fn point(&self, state: &FilterState, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        (self.0.point)(state, index, params, out)
    }

    fn weight(&self, state: &FilterState, index: usize) -> f32 {
        (self.0.weight)(state, index)
    }

    fn check(&self, state: &FilterState, dim: usize) -> Result<(), CallError> {
        (self.0.check)(state, dim)
    }

    fn begin(&self, state: &mut FilterState) -> FilterStep {
        (self.0.begin)(state)
    }

    fn apply(
        &self,
        step: FilterStep,
        state: &mut FilterState,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        (self.0.apply)(step, state, at, released, filtered);
    }

    fn leave(&self, step: FilterStep, state: &mut FilterState, at: usize, params: &[f32]) {
        (self.0.leave)(step, state, at, params);
    }

    fn arrive(&self, step: FilterStep, state: &mut FilterState, at: usize, params: &[f32]) {
        (self.0.arrive)(step, state, at, params);
    }
}

/// Fills the slot with what `make` makes of the run.
unsafe fn choose(
    run: *mut Run,
    functions: &'static FilterFns,
    make: impl FnOnce(&mut Idle<'_>) -> Answer<FilterState>,
) -> Status {
    // SAFETY: the caller's contract.
    let answer = unsafe { choosing(run, Slot::Filter) }.and_then(|mut idle| {
        idle.body.state.filter = idle.attempt(make)?;
        idle.fill(Slot::Filter, |choices| choices.filter = FilterSlot(functions))
    });
    status(answer)
}

/// Coefficients `a` and `b` that the caller lends.
unsafe fn recursive(
    idle: &mut Idle<'_>,
    a: (*const f32, usize),
    b: (*const f32, usize),
) -> Answer<Iir<DAMPER_MAX_ORDER>> {
    // SAFETY: the caller's contract.
    let (a, b) = unsafe { (border::input(idle.head, a.0, a.1)?, border::input(idle.head, b.0, b.1)?) };
    Iir::new(a, b).map_err(|error| idle.head.refuse(error))
}

/// DOPPLER: the recursive filter `y_t = b_0·g_t + b_1·g_(t-1) + … − a_1·y_(t-1) − …`, bias-corrected; `a` without the
/// leading 1, neither of more than `DAMPER_MAX_ORDER` delays. Takes as many vectors as its order, the larger number of
/// delays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_iir(
    run: *mut Run,
    a: *const f32,
    a_len: usize,
    b: *const f32,
    b_len: usize,
) -> Status {
    let make = |idle: &mut Idle<'_>| {
        // SAFETY: the contract of the header.
        let iir = unsafe { recursive(idle, (a, a_len), (b, b_len)) }?;
        let memory = idle.vectors(iir.order())?;
        Ok(FilterState::Iir(iir, IirState::new(memory)))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &IIR, make) }
}

/// The published filter of that name (`momentum`, `d2`, `f6`, `p7`, …; in any case), as `damper_choose_iir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_named_filter(run: *mut Run, name: *const c_char) -> Status {
    let make = |idle: &mut Idle<'_>| {
        if name.is_null() {
            return Err(Status::Null);
        }
        // SAFETY: not null, and ended by a zero by the contract of the header.
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
        let set = named(name).ok_or(ConfigError { parameter: "filter", must_be: "the name of a published one" });
        let iir = set.and_then(|set| Iir::new(set.a, set.b)).map_err(|error| idle.head.refuse(error))?;
        let memory = idle.vectors(iir.order())?;
        Ok(FilterState::Iir(iir, IirState::new(memory)))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &IIR, make) }
}

/// DiSK's filter with a constant gain `kappa`, from 0.001 to 1. A sample's gradient is wanted at one point ahead of the
/// parameters, or, with a `gamma` other than 0 (at least 0.01 in magnitude), at two. Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_disk(run: *mut Run, kappa: f64, gamma: f64) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose(run, &KALMAN, |idle| kalman(idle, Gain::Constant(kappa), gamma)) }
}

/// DiSK's filter with the gain of the scalar Kalman recursion: variances of the noise in a released gradient, of the
/// error of the finite difference (`drift`, below `noise`) and of the gradient's own change (`process`), in any common
/// unit. Else as `damper_choose_disk`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_disk_recursion(
    run: *mut Run,
    noise: f64,
    drift: f64,
    process: f64,
    gamma: f64,
) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose(run, &KALMAN, |idle| kalman(idle, Gain::Recursion { noise, drift, process }, gamma)) }
}

fn kalman(idle: &mut Idle<'_>, gain: Gain, gamma: f64) -> Answer<FilterState> {
    let look_ahead = if gamma == 0.0 { LookAhead::One } else { LookAhead::Two { gamma } };
    let filter = Kalman::new(gain, look_ahead).map_err(|error| idle.head.refuse(error))?;
    let (filtered, moved) = (idle.vectors(1)?, idle.vectors(1)?);
    Ok(FilterState::Kalman(filter, KalmanState::new(&filter, filtered, moved)))
}

/// DP-PMLF: per-sample momentum over the last `iterates` (1 to `DAMPER_MAX_ITERATES`) with factor `beta` (−0.9 to 1),
/// and the filter of `damper_choose_iir` on what is released. Gradients are wanted at as many points. Takes `iterates −
/// 1` vectors and the filter's order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_dp_pmlf(
    run: *mut Run,
    iterates: usize,
    beta: f64,
    a: *const f32,
    a_len: usize,
    b: *const f32,
    b_len: usize,
) -> Status {
    let make = |idle: &mut Idle<'_>| {
        // SAFETY: the contract of the header.
        let iir = unsafe { recursive(idle, (a, a_len), (b, b_len)) }?;
        let order = iir.order();
        let filter = PerSampleMomentum::new(iterates, beta, iir).map_err(|error| idle.head.refuse(error))?;
        let (past, memory) = (idle.vectors(iterates.saturating_sub(1))?, idle.vectors(order)?);
        Ok(FilterState::Momentum(filter, PerSampleMomentumState::new(past, IirState::new(memory))))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &MOMENTUM, make) }
}

/// The inner momentum of Xiao et al.: per-sample momentum over the last `iterates` with factor `beta`, not normalised,
/// and no filter after it; beside it momentum in the optimizer. Takes `iterates − 1` vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_inner_momentum(run: *mut Run, iterates: usize, beta: f64) -> Status {
    let make = |idle: &mut Idle<'_>| {
        let filter = PerSampleMomentum::unnormalised(iterates, beta, Identity);
        let filter = filter.map_err(|error| idle.head.refuse(error))?;
        let past = idle.vectors(iterates.saturating_sub(1))?;
        Ok(FilterState::InnerMomentum(filter, PerSampleMomentumState::new(past, ())))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &INNER_MOMENTUM, make) }
}
