//! Which clip each step uses.

use super::choosing;
use crate::border::{self, Idle};
use crate::run::{Run, Slot};
use crate::status::{Answer, Status, status};
use damper_core::error::ConfigError;
use damper_core::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Facts, Fixed, Percentile, PercentileState, Quantile,
    QuantileState, Query, ReleasedCounts, Solver, Threshold,
};

/// Bins of a histogram of norms, as in the paper of DC-SGD.
pub const DAMPER_BINS: usize = 20;

/// A rule and its memory.
pub(crate) enum ThresholdState {
    Fixed(Fixed),
    Percentile(Percentile<DAMPER_BINS>, PercentileState),
    ExpectedError(ExpectedError<DAMPER_BINS>, ExpectedErrorState),
    Quantile(Quantile, QuantileState),
}

impl ThresholdState {
    pub(crate) const fn fixed(clip: f32) -> Self {
        Self::Fixed(Fixed(clip))
    }
}

/// A rule as functions of its state.
pub(crate) struct ThresholdFns {
    clip: fn(&ThresholdState) -> f32,
    query: fn(&ThresholdState) -> Query,
    update: fn(&mut ThresholdState, &ReleasedCounts<'_>, Facts),
}

/// The functions of the rule with this state. A clip of 0 is refused by the step, should the state be another's.
macro_rules! functions {
    ($variant:ident) => {
        ThresholdFns {
            clip: |state| match state {
                ThresholdState::$variant(rule, state) => rule.clip(state),
                _ => 0.0,
            },
            query: |state| match state {
                ThresholdState::$variant(rule, state) => rule.query(state),
                _ => Query::None,
            },
            update: |state, released, facts| {
                if let ThresholdState::$variant(rule, state) = state {
                    rule.update(state, released, facts);
                }
            },
        }
    };
}

static FIXED: ThresholdFns = ThresholdFns {
    clip: |state| if let ThresholdState::Fixed(rule) = state { rule.clip(&()) } else { 0.0 },
    query: |_| Query::None,
    update: |_, _, _| {},
};
static PERCENTILE: ThresholdFns = functions!(Percentile);
static EXPECTED_ERROR: ThresholdFns = functions!(ExpectedError);
static QUANTILE: ThresholdFns = functions!(Quantile);

/// The rule that was chosen.
#[derive(Clone, Copy)]
pub(crate) struct ThresholdSlot {
    functions: &'static ThresholdFns,
    noise: Option<CountNoise>,
}

impl ThresholdSlot {
    pub(crate) const FIXED: Self = Self { functions: &FIXED, noise: None };
}

impl Threshold for ThresholdSlot {
    type State = ThresholdState;
    type Counts = [i32; DAMPER_BINS];

    fn clip(&self, state: &ThresholdState) -> f32 {
        (self.functions.clip)(state)
    }

    fn query(&self, state: &ThresholdState) -> Query {
        (self.functions.query)(state)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.noise
    }

    fn update(&self, state: &mut ThresholdState, released: &ReleasedCounts<'_>, facts: Facts) {
        (self.functions.update)(state, released, facts);
    }
}

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
unsafe fn bounds(idle: &Idle<'_>, interval: *const Interval) -> Answer<Result<Bounds, ConfigError>> {
    // SAFETY: the caller's contract.
    let interval = unsafe { border::read_optional(idle.head, interval) }?;
    Ok(interval.map_or(Ok(Bounds::default()), |interval| Bounds::new(interval.min, interval.max)))
}

/// Fills the slot with a rule, its noise and its memory.
unsafe fn choose(
    run: *mut Run,
    functions: &'static ThresholdFns,
    make: impl FnOnce(&Idle<'_>) -> Answer<Result<(Option<CountNoise>, ThresholdState), ConfigError>>,
) -> Status {
    let fill = |mut idle: Idle<'_>| {
        let (noise, state) = make(&idle)?.map_err(|error| idle.head.refuse(error))?;
        idle.body.state.threshold = state;
        idle.fill(Slot::Threshold, |choices| choices.threshold = ThresholdSlot { functions, noise })
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
    let make = |idle: &Idle<'_>| {
        // SAFETY: the contract of the header.
        let clips = unsafe { bounds(idle, clips) }?;
        Ok(clips.and_then(|clips| {
            let rule = Percentile::new(fraction, CountNoise::new(count_noise)?)?.within(clips);
            Ok((rule.count_noise(), ThresholdState::Percentile(rule, PercentileState::new(first_clip, first_range)?)))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &PERCENTILE, make) }
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
    let make = |idle: &Idle<'_>| {
        // SAFETY: the contract of the header.
        let (clips, ranges) = unsafe { (bounds(idle, clips)?, bounds(idle, ranges)?) };
        Ok(clips.and_then(|clips| {
            let solver = if exact == 0 { Solver::PaperGrid } else { Solver::Exact };
            let rule = ExpectedError::new(solver, CountNoise::new(count_noise)?)?.within(clips, ranges?);
            let state = ExpectedErrorState::new(first_clip, first_range)?;
            Ok((rule.count_noise(), ThresholdState::ExpectedError(rule, state)))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &EXPECTED_ERROR, make) }
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
    let make = |idle: &Idle<'_>| {
        // SAFETY: the contract of the header.
        let clips = unsafe { bounds(idle, clips) }?;
        Ok(clips.and_then(|clips| {
            let rule = Quantile::new(quantile, rate, sigma_b)?.within(clips);
            Ok((rule.count_noise(), ThresholdState::Quantile(rule, QuantileState::new(first_clip)?)))
        }))
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, &QUANTILE, make) }
}
