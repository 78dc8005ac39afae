//! Any schedule.

use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::schedule::{Constant, Declared, Schedule};

/// [`Constant`] or [`Declared`].
///
/// A declared one is called through functions that only [`AnySchedule::declared`] names: a program without it has none of the
/// powers and cosines that it takes.
#[derive(Clone, Copy, Debug)]
pub struct AnySchedule(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Constant(Constant),
    Declared(Declared, &'static Functions),
}

#[derive(Debug)]
struct Functions {
    learning_rate: fn(&Declared, u32) -> f64,
    noise_factor: fn(&Declared, u32) -> f64,
    check: fn(&Declared) -> Result<(), ConfigError>,
}

static DECLARED: Functions =
    Functions { learning_rate: Schedule::learning_rate, noise_factor: Schedule::noise_factor, check: Schedule::check };

impl AnySchedule {
    /// One learning rate, and the mechanism's own noise.
    #[must_use]
    pub fn constant(learning_rate: f64) -> Self {
        Self(Kind::Constant(Constant(learning_rate)))
    }

    /// A learning rate and a noise that change over the steps.
    #[must_use]
    pub fn declared(declared: Declared) -> Self {
        Self(Kind::Declared(declared, &DECLARED))
    }

    /// Whether learning rate and noise are those of step 0 at every step.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(self.0, Kind::Constant(_))
    }
}

impl Sealed for AnySchedule {}

impl Schedule for AnySchedule {
    fn learning_rate(&self, step: u32) -> f64 {
        match &self.0 {
            Kind::Constant(schedule) => schedule.learning_rate(step),
            Kind::Declared(schedule, functions) => (functions.learning_rate)(schedule, step),
        }
    }

    fn noise_factor(&self, step: u32) -> f64 {
        match &self.0 {
            Kind::Constant(schedule) => schedule.noise_factor(step),
            Kind::Declared(schedule, functions) => (functions.noise_factor)(schedule, step),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match &self.0 {
            Kind::Constant(schedule) => schedule.check(),
            Kind::Declared(schedule, functions) => (functions.check)(schedule),
        }
    }
}
