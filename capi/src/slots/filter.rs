//! Filters of released gradients, and their evaluation points.

use super::choosing;
pub use super::held::{DAMPER_MAX_ITERATES, DAMPER_MAX_ORDER};
use super::held::{KeptFilter, Recursive};
use crate::ffi::{self, IdleMut};
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use core::ffi::{CStr, c_char};
use damper_core::error::ConfigError;
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState, named,
};
use damper_core::slots::{FilterSlot, StatefulSlot};

/// Fills the slot with the filter that `make` creates.
unsafe fn choose(
    run: *mut Run,
    make: impl FnOnce(&mut IdleMut<'_>) -> FfiResult<&'static mut dyn KeptFilter>,
) -> Status {
    // SAFETY: the caller's contract.
    let answer = unsafe { choosing(run, Slot::Filter) }.and_then(|mut idle| {
        let filter = idle.attempt(make)?;
        let slot = FilterSlot::of(filter);
        idle.state()?.filter = filter;
        idle.fill(Slot::Filter, |choices| choices.filter = slot)
    });
    status(answer)
}

/// Creates the recursive filter with these coefficients.
fn recursive(idle: &mut IdleMut<'_>, taps: [&[f32]; 2]) -> FfiResult<Recursive> {
    let [a, b] = taps;
    let iir = idle.accept(Iir::new(a, b))?;
    let memory = idle.vectors(iir.order())?;
    Ok(StatefulSlot::filter(iir, IirState::new(memory)))
}

/// Borrows the caller's coefficients `a` and `b`.
unsafe fn taps<'a>(
    idle: &IdleMut<'_>,
    (a, a_len): (*const f32, usize),
    (b, b_len): (*const f32, usize),
) -> FfiResult<[&'a [f32]; 2]> {
    // SAFETY: the caller's contract.
    unsafe { Ok([ffi::input(idle.head, a, a_len)?, ffi::input(idle.head, b, b_len)?]) }
}

/// Chooses DOPPLER: the recursive filter `y_t = b_0·g_t + b_1·g_(t-1) + … − a_1·y_(t-1) − …`, bias-corrected. `a` is
/// without the leading 1. Neither has more than `DAMPER_MAX_ORDER` delays. Takes as many vectors as the order, which is
/// the larger number of delays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_iir(
    run: *mut Run,
    a: *const f32,
    a_len: usize,
    b: *const f32,
    b_len: usize,
) -> Status {
    let make = |idle: &mut IdleMut<'_>| {
        // SAFETY: the contract of the header.
        let taps = unsafe { taps(idle, (a, a_len), (b, b_len)) }?;
        let filter = recursive(idle, taps)?;
        Ok(idle.hold(SlotStorage::recursive, filter) as &mut dyn KeptFilter)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// As `damper_choose_iir`, for the published filter of that name (`momentum`, `d2`, `f6`, `p7`, …) in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_named_filter(run: *mut Run, name: *const c_char) -> Status {
    let make = |idle: &mut IdleMut<'_>| {
        if name.is_null() {
            return Err(Status::Null);
        }
        // SAFETY: not null, and zero-terminated by the contract of the header.
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
        let unknown = ConfigError { parameter: "filter", must_be: "the name of a published one" };
        let set = named(name).ok_or_else(|| idle.head.refuse(unknown))?;
        let filter = recursive(idle, [set.a, set.b])?;
        Ok(idle.hold(SlotStorage::recursive, filter) as &mut dyn KeptFilter)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// Chooses DiSK's filter with a constant gain `kappa`, from 0.001 to 1. A sample's gradient is evaluated at one point
/// ahead of the parameters. With a `gamma` other than 0 (at least 0.01 in magnitude) there are two points. Takes 2
/// vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_disk(run: *mut Run, kappa: f64, gamma: f64) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose(run, |idle| disk(idle, Gain::Constant(kappa), gamma)) }
}

/// Chooses DiSK's filter with the gain of the scalar Kalman recursion. The variances have any common unit. `noise` is
/// that of the noise in a released gradient, `drift` that of the error of the finite difference, below `noise`.
/// `process` is that of the gradient's own change. The rest as in `damper_choose_disk`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_disk_recursion(
    run: *mut Run,
    noise: f64,
    drift: f64,
    process: f64,
    gamma: f64,
) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose(run, |idle| disk(idle, Gain::Recursion { noise, drift, process }, gamma)) }
}

fn disk(idle: &mut IdleMut<'_>, gain: Gain, gamma: f64) -> FfiResult<&'static mut dyn KeptFilter> {
    let look_ahead = if gamma != 0.0 { LookAhead::Two { gamma } } else { LookAhead::One };
    let filter = idle.accept(Kalman::new(gain, look_ahead))?;
    let state = KalmanState::new(&filter, idle.vectors(1)?, idle.vectors(1)?);
    Ok(idle.hold(SlotStorage::filter, StatefulSlot::filter(filter, state)))
}

/// Chooses DP-PMLF: per-sample momentum over the last `iterates` (1 to `DAMPER_MAX_ITERATES`) with factor `beta` (−0.9
/// to 1). The filter of `damper_choose_iir` then applies to the release. Gradients are evaluated at `iterates` points.
/// Takes `iterates − 1` vectors and the filter's order.
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
    let make = |idle: &mut IdleMut<'_>| {
        // SAFETY: the contract of the header.
        let taps = unsafe { taps(idle, (a, a_len), (b, b_len)) }?;
        let inner = recursive(idle, taps)?;
        let inner = idle.hold(SlotStorage::recursive, inner);
        let filter = PerSampleMomentum::new(iterates, beta, FilterSlot::of(inner));
        momentum(idle, iterates, filter, inner)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// Chooses the inner momentum of Xiao et al.: per-sample momentum over the last `iterates` with factor `beta`, not
/// normalised, and no filter after it. Use it with momentum in the optimizer. Takes `iterates − 1` vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_inner_momentum(run: *mut Run, iterates: usize, beta: f64) -> Status {
    let make = |idle: &mut IdleMut<'_>| {
        let inner = idle.hold(SlotStorage::recursive, StatefulSlot::filter(Identity, ()));
        let filter = PerSampleMomentum::unnormalised(iterates, beta, FilterSlot::of(inner));
        momentum(idle, iterates, filter, inner)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// Creates per-sample momentum over the inner filter, unless its settings are out of range.
fn momentum(
    idle: &mut IdleMut<'_>,
    iterates: usize,
    filter: Result<PerSampleMomentum<FilterSlot, DAMPER_MAX_ITERATES>, ConfigError>,
    inner: &'static mut dyn KeptFilter,
) -> FfiResult<&'static mut dyn KeptFilter> {
    let filter = idle.accept(filter)?;
    let past = idle.vectors(iterates.saturating_sub(1))?;
    Ok(idle.hold(SlotStorage::filter, StatefulSlot::filter(filter, PerSampleMomentumState::new(past, inner))))
}
