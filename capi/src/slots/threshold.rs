//! Which clip each step uses.

use super::choosing;
pub use super::held::DAMPER_BINS;
use super::held::KeptThreshold;
use crate::ffi::{self, IdleMut};
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::slots::{StatefulSlot, ThresholdSlot};
use damper_core::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Percentile, PercentileState, Quantile, QuantileState, Solver,
};

/// A closed interval, of clips or of ranges: from 2^-104 to 2^126.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Interval {
    /// The least.
    pub min: f32,
    /// The largest.
    pub max: f32,
}

/// The interval that the caller lends; without one from 1e-8 to 1e8.
unsafe fn bounds(idle: &IdleMut<'_>, interval: *const Interval) -> FfiResult<Result<Bounds, ConfigError>> {
    // SAFETY: the caller's contract.
    let interval = unsafe { ffi::read_optional(idle.head, interval) }?;
    Ok(interval.map_or(Ok(Bounds::default()), |interval| Bounds::new(interval.min, interval.max)))
}

/// Fills the slot with a rule and its memory.
unsafe fn choose<T: KeptThreshold + 'static>(
    run: *mut Run,
    make: impl FnOnce(&IdleMut<'_>) -> FfiResult<Result<T, ConfigError>>,
) -> Status {
    let fill = |mut idle: IdleMut<'_>| {
        let held = make(&idle)?.map_err(|error| idle.head.refuse(error))?;
        let held = idle.hold(SlotStorage::threshold, held);
        let slot = ThresholdSlot::of(held);
        idle.state()?.threshold = held;
        idle.fill(Slot::Threshold, |choices| choices.threshold = slot)
    };
    // SAFETY: the caller's contract.
    status(unsafe { choosing(run, Slot::Threshold) }.and_then(fill))
}

/// DC-SGD-P: the clip that leaves about `fraction` of the samples unclipped, from a histogram of norms released with
/// noise of `count_noise` counts (0.25 to 2^18; it is priced with the gradient's). The first step has the clip
/// `first_clip` and a histogram over [0, `first_range`). `clips`, which may be null, bounds the clip. The
/// configuration's clip has no part in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_percentile(
    run: *mut Run,
    fraction: f64,
    count_noise: f64,
    first_clip: f32,
    first_range: f32,
    clips: *const Interval,
) -> Status {
    let make = |idle: &IdleMut<'_>| {
        // SAFETY: the contract of the header.
        let clips = unsafe { bounds(idle, clips) }?;
        Ok(clips.and_then(|clips| {
            let rule = Percentile::<DAMPER_BINS>::new(fraction, CountNoise::new(count_noise)?)?.within(clips);
            Ok(StatefulSlot::threshold(rule, PercentileState::new(first_clip, first_range)?))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// DC-SGD-E: the clip that minimises the expected error, else as `damper_choose_percentile`. It is sought on the
/// paper's grid, or, if `exact` is not 0, in closed form. `ranges`, which may be null, bounds the histogram's range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_expected_error(
    run: *mut Run,
    exact: u32,
    count_noise: f64,
    first_clip: f32,
    first_range: f32,
    clips: *const Interval,
    ranges: *const Interval,
) -> Status {
    let make = |idle: &IdleMut<'_>| {
        // SAFETY: the contract of the header.
        let (clips, ranges) = unsafe { (bounds(idle, clips)?, bounds(idle, ranges)?) };
        Ok(clips.and_then(|clips| {
            let solver = if exact == 0 { Solver::PaperGrid } else { Solver::Exact };
            let rule = ExpectedError::<DAMPER_BINS>::new(solver, CountNoise::new(count_noise)?)?.within(clips, ranges?);
            Ok(StatefulSlot::threshold(rule, ExpectedErrorState::new(first_clip, first_range)?))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// Adaptive clipping (Andrew et al.): the clip follows the `quantile` of the norms at rate `rate`, with noise of
/// `sigma_b` on the number of unclipped samples; `2·sigma_b` is what is priced with the gradient's. Else as
/// `damper_choose_percentile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_quantile(
    run: *mut Run,
    quantile: f64,
    rate: f64,
    sigma_b: f64,
    first_clip: f32,
    clips: *const Interval,
) -> Status {
    let make = |idle: &IdleMut<'_>| {
        // SAFETY: the contract of the header.
        let clips = unsafe { bounds(idle, clips) }?;
        Ok(clips.and_then(|clips| {
            let rule = Quantile::new(quantile, rate, sigma_b)?.within(clips);
            Ok(StatefulSlot::threshold(rule, QuantileState::new(first_clip)?))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}
