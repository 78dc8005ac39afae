//! Schedules of the learning rate and the noise, declared in advance.

use super::choosing;
use crate::ffi::{self, IdleMut};
use crate::memory::{Run, Slot, Stage};
use crate::run::check_sigma;
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::private::Mechanism;
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule, Schedule as _};
use damper_core::slots::AnySchedule;

/// Decay of the learning rate.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum LrDecay {
    /// Constant.
    None = 0,
    /// Multiplied by `factor` every `steps` steps.
    Step = 1,
    /// Half a cosine over `steps`, down to `factor` times the start.
    Cosine = 2,
    /// `1/√(offset + slope·t)`.
    Polynomial = 3,
    /// `1 − (1 − factor)·√(t/steps)`.
    RootLinear = 4,
}

/// Schedule of the noise.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum NoiseScheduleKind {
    /// Constant.
    None = 0,
    /// `(η_0/η_t)^exponent`: follows the decay of the learning rate (ADP).
    Matched = 1,
    /// `(1 + growth·t)^(exponent/2)`.
    Polynomial = 2,
}

/// A declared schedule. Fields that its kinds do not use are not read.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Schedule {
    /// Bytes of this struct: `DAMPER_SCHEDULE_INIT` sets it.
    pub size: usize,
    /// One of `damper_lr_decay`.
    pub decay: u32,
    /// One of `damper_noise_schedule`.
    pub noise: u32,
    /// Warm-up steps, over which the learning rate rises from 0 to the configuration's.
    pub warmup: u32,
    /// For `STEP`, `COSINE` and `ROOT_LINEAR`: at least 1.
    pub steps: u32,
    /// For the same decays: from 0 to 1. For `STEP` above 0.
    pub factor: f64,
    /// For `POLYNOMIAL`: above 0.
    pub offset: f64,
    /// For `POLYNOMIAL`: not negative.
    pub slope: f64,
    /// For the noise: not negative.
    pub growth: f64,
    /// For the noise: from 0 to 4.
    pub exponent: f64,
}

impl Schedule {
    fn declared(&self, base: f64) -> Result<Declared, ConfigError> {
        let Self { steps, factor, offset, slope, growth, exponent, .. } = *self;
        let decay = match self.decay {
            d if d == LrDecay::None as u32 => Decay::Constant,
            d if d == LrDecay::Step as u32 => Decay::Step { every: steps, factor },
            d if d == LrDecay::Cosine as u32 => Decay::Cosine { steps, floor: factor },
            d if d == LrDecay::Polynomial as u32 => Decay::Polynomial { offset, slope },
            d if d == LrDecay::RootLinear as u32 => Decay::RootLinear { steps, floor: factor },
            _ => return Err(ConfigError { parameter: "decay", must_be: "one of damper_lr_decay" }),
        };
        let noise = match self.noise {
            n if n == NoiseScheduleKind::None as u32 => NoiseSchedule::Constant,
            n if n == NoiseScheduleKind::Matched as u32 => NoiseSchedule::Matched { exponent },
            n if n == NoiseScheduleKind::Polynomial as u32 => NoiseSchedule::Polynomial { growth, exponent },
            _ => return Err(ConfigError { parameter: "noise", must_be: "one of damper_noise_schedule" }),
        };
        noise.check()?;
        Ok(Declared { learning_rate: LearningRate::new(base, self.warmup, decay)?, noise })
    }
}

/// Chooses a schedule of the learning rate and the noise. ADP is `POLYNOMIAL` with `MATCHED`. The noise is accounted
/// for as a whole: see `damper_epsilon`. As in the configuration, 32 bits must hold the sums, including those with the
/// last step's noise. No step's noise may be too coarse.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_schedule(run: *mut Run, schedule: *const Schedule) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { choose_schedule(run, schedule) })
}

unsafe fn choose_schedule(run: *mut Run, schedule: *const Schedule) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { choosing(run, Slot::Schedule) }?;
    // SAFETY: the caller's contract.
    let schedule = unsafe { ffi::read_sized(idle.head, schedule) }?;
    let Stage::Choosing(choices) = &idle.body.stage else { return Err(Status::Order) };
    let declared = schedule.declared(choices.schedule.learning_rate(0)).map_err(|error| idle.head.refuse(error))?;
    check_noise(&idle, &declared, schedule.warmup).map_err(|error| idle.head.refuse(error))?;
    idle.fill(Slot::Schedule, |choices| choices.schedule = AnySchedule::declared(declared))
}

/// Fails if sums overflow under the noise of the last step, which is the largest if noise grows. Also fails if a step's
/// noise is too coarse for the accountant. Noise decreases only during warm-up.
fn check_noise(idle: &IdleMut<'_>, declared: &Declared, warmup: u32) -> Result<(), ConfigError> {
    let Stage::Choosing(choices) = &idle.body.stage else { return Ok(()) };
    let last = idle.budget.ledger.budget().saturating_sub(1);
    let at = |step| choices.mechanism.scaled(declared.noise_factor(step));
    let mechanism = at(last);
    if mechanism.grid().may_overflow_i32(choices.expected_batch, mechanism.sigma()) {
        return Err(ConfigError { parameter: "noise of the last step", must_be: "less, or the grid bits fewer" });
    }
    let mut steps = 0..=warmup.min(last);
    steps.try_for_each(|step| check_sigma(&at(step)))
}
