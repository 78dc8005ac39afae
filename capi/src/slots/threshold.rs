//! Which clip each step uses.

pub use super::held::DAMPER_BINS;
use super::held::{KeptThreshold, Vector};
use super::{choosing, described};
use crate::ffi;
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use damper_core::described::Described;
use damper_core::slots::{StatefulSlot, ThresholdSlot};
use damper_core::threshold::{ExpectedError, Percentile, Quantile, Threshold};

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
unsafe fn bounds(run: *mut Run, interval: *const Interval) -> FfiResult<[f64; 2]> {
    // SAFETY: the caller's contract.
    let interval = unsafe { ffi::read_optional(ffi::head(run)?, interval) }?;
    Ok(interval.map_or([1e-8, 1e8], |Interval { min, max }| [min.into(), max.into()]))
}

/// Fills the slot with the rule of these settings.
unsafe fn choose<T>(run: *mut Run, numbers: &[f64]) -> FfiResult
where
    T: Described + Threshold<State = <T as Described>::State<Vector<f32>>> + 'static,
{
    // SAFETY: the caller's contract.
    let mut idle = unsafe { choosing(run, Slot::Threshold) }?;
    let (rule, state) = described::build::<T>(&mut idle, numbers, [&[]; 2])?;
    let held: &mut dyn KeptThreshold = idle.hold(SlotStorage::threshold, StatefulSlot::threshold(rule, state));
    let slot = ThresholdSlot::of(held);
    idle.state()?.threshold = held;
    idle.fill(Slot::Threshold, |choices| choices.threshold = slot)
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
    // SAFETY: the contract of the header.
    let answer = unsafe { bounds(run, clips) }.and_then(|[min, max]| {
        let numbers = [fraction, count_noise, first_clip.into(), first_range.into(), min, max];
        // SAFETY: the contract of the header.
        unsafe { choose::<Percentile<DAMPER_BINS>>(run, &numbers) }
    });
    status(answer)
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
    // SAFETY: the contract of the header.
    let intervals = unsafe { bounds(run, clips).and_then(|clips| Ok((clips, bounds(run, ranges)?))) };
    let answer = intervals.and_then(|([min, max], [least, most])| {
        let numbers = [exact.into(), count_noise, first_clip.into(), first_range.into(), min, max, least, most];
        // SAFETY: the contract of the header.
        unsafe { choose::<ExpectedError<DAMPER_BINS>>(run, &numbers) }
    });
    status(answer)
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
    // SAFETY: the contract of the header.
    let answer = unsafe { bounds(run, clips) }.and_then(|[min, max]| {
        // SAFETY: the contract of the header.
        unsafe { choose::<Quantile>(run, &[quantile, rate, sigma_b, first_clip.into(), min, max]) }
    });
    status(answer)
}
