//! Threshold: the clip of each step.

use super::choosing;
pub use super::held::DAMPER_BINS;
use super::held::KeptThreshold;
use crate::ffi;
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::slots::{StatefulSlot, ThresholdSlot};
use damper_core::state::SaveState;
use damper_core::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Percentile, PercentileState, Quantile, QuantileState,
    Solver, Threshold,
};

/// A closed interval of clips or of ranges, within 2^-104 to 2^126.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Interval {
    /// Lower end.
    pub min: f32,
    /// Upper end.
    pub max: f32,
}

/// Returns the caller's interval, or the default from 1e-8 to 1e8.
unsafe fn interval(run: *mut Run, interval: *const Interval) -> FfiResult<Interval> {
    // SAFETY: the caller's contract.
    let interval = unsafe { ffi::read_optional(ffi::head(run)?, interval) }?;
    Ok(interval.unwrap_or(Interval { min: 1e-8, max: 1e8 }))
}

impl Interval {
    fn bounds(self) -> Result<Bounds, ConfigError> {
        Bounds::new(self.min, self.max)
    }
}

/// Fills the slot with this rule and its state.
unsafe fn choose<T, S>(run: *mut Run, made: Result<(T, S), ConfigError>) -> FfiResult
where
    T: Threshold<State = S> + 'static,
    S: SaveState + 'static,
{
    // SAFETY: the caller's contract.
    let mut idle = unsafe { choosing(run, Slot::Threshold) }?;
    let (rule, state) = idle.accept(made)?;
    let held: &mut dyn KeptThreshold = idle.hold(SlotStorage::threshold, StatefulSlot::threshold(rule, state));
    let slot = ThresholdSlot::of(held);
    idle.state()?.threshold = held;
    idle.fill(Slot::Threshold, |choices| choices.threshold = slot)
}

/// Chooses DC-SGD-P: the clip that leaves about `fraction` of the samples unclipped. It comes from a histogram of
/// norms, released with noise of `count_noise` counts (0.25 to 2^18). The histogram is accounted for with the gradient.
/// The first step has the clip `first_clip` and a histogram over [0, `first_range`). `clips`, which may be null, bounds
/// the clip. The configuration's clip does not apply.
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
    let answer = unsafe { interval(run, clips) }.and_then(|clips| {
        let make = || {
            let rule = Percentile::<DAMPER_BINS>::new(fraction, CountNoise::new(count_noise)?)?;
            let state = PercentileState::new(first_clip, first_range)?;
            Ok((rule.within(clips.bounds()?), state))
        };
        // SAFETY: the contract of the header.
        unsafe { choose(run, make()) }
    });
    status(answer)
}

/// Chooses DC-SGD-E: the clip that minimises the expected error. The rest as in `damper_choose_percentile`. The minimum
/// is searched on the paper's grid, or computed in closed form if `exact` is not 0. `ranges`, which may be null, bounds
/// the histogram's range.
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
    let intervals = unsafe { interval(run, clips).and_then(|clips| Ok((clips, interval(run, ranges)?))) };
    let answer = intervals.and_then(|(clips, ranges)| {
        let make = || {
            let solver = if exact != 0 { Solver::Exact } else { Solver::PaperGrid };
            let rule = ExpectedError::<DAMPER_BINS>::new(solver, CountNoise::new(count_noise)?)?;
            let state = ExpectedErrorState::new(first_clip, first_range)?;
            Ok((rule.within(clips.bounds()?, ranges.bounds()?), state))
        };
        // SAFETY: the contract of the header.
        unsafe { choose(run, make()) }
    });
    status(answer)
}

/// Chooses adaptive clipping (Andrew et al.): the clip follows the `quantile` of the norms at rate `rate`. The number
/// of unclipped samples gets noise of `sigma_b`, and `2·sigma_b` is accounted for with the gradient. The rest as in
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
    let answer = unsafe { interval(run, clips) }.and_then(|clips| {
        let make = || {
            let rule = Quantile::new(quantile, rate, sigma_b)?;
            let state = QuantileState::new(first_clip)?;
            Ok((rule.within(clips.bounds()?), state))
        };
        // SAFETY: the contract of the header.
        unsafe { choose(run, make()) }
    });
    status(answer)
}
