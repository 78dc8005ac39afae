//! Schedule chosen at run time.

use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::schedule::{Constant, Decay, Declared, Schedule};

/// [`Constant`] or [`Declared`] schedule.
///
/// A declared schedule is called through functions that [`AnySchedule::declared`] selects. A program without it links
/// no powers and cosines. A program with constant settings links only the functions of its schedule.
///
/// ```
/// use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule, Schedule as _};
/// use damper_core::slots::AnySchedule;
///
/// let learning_rate = LearningRate::new(0.5, 4, Decay::Constant)?;
/// let schedule = AnySchedule::declared(Declared { learning_rate, noise: NoiseSchedule::Constant });
/// assert_eq!((schedule.learning_rate(0), schedule.is_constant()), (0.125, false));
/// assert!(AnySchedule::constant(0.5).is_constant());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AnySchedule(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Constant(Constant),
    /// With the fingerprint of its noise.
    Declared(Declared, Functions, u64),
}

/// Functions of a declared schedule.
#[derive(Clone, Copy, Debug)]
struct Functions {
    learning_rate: fn(&Declared, &Self, u32) -> f64,
    noise_factor: fn(&Declared, &Self, u32) -> f64,
    check: fn(&Declared) -> Result<(), ConfigError>,
    decay: fn(&Decay, u32) -> f64,
    power: fn(f64, f64) -> f64,
}

fn learning_rate(declared: &Declared, functions: &Functions, step: u32) -> f64 {
    declared.learning_rate.by(functions.decay, step)
}

fn noise_factor(declared: &Declared, functions: &Functions, step: u32) -> f64 {
    declared.noise.by(functions.power, |step| learning_rate(declared, functions, step), step)
}

impl AnySchedule {
    /// Creates a constant learning rate with the mechanism's own noise.
    #[must_use]
    pub fn constant(learning_rate: f64) -> Self {
        Self(Kind::Constant(Constant(learning_rate)))
    }

    /// Creates a schedule for the learning rate and the noise.
    // Inlined: if the settings are constants, the compiler resolves the functions.
    #[inline(always)]
    #[must_use]
    pub fn declared(declared: Declared) -> Self {
        let functions = Functions {
            learning_rate,
            noise_factor,
            check: if declared.check().is_ok() { |_| Ok(()) } else { Schedule::check },
            decay: declared.learning_rate.decay().function(),
            power: declared.noise.power(),
        };
        Self(Kind::Declared(declared, functions, declared.noise_fingerprint()))
    }

    /// Returns true if learning rate and noise never change.
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
            Kind::Declared(schedule, functions, _) => (functions.learning_rate)(schedule, functions, step),
        }
    }

    fn noise_factor(&self, step: u32) -> f64 {
        match &self.0 {
            Kind::Constant(schedule) => schedule.noise_factor(step),
            Kind::Declared(schedule, functions, _) => (functions.noise_factor)(schedule, functions, step),
        }
    }

    fn noise_fingerprint(&self) -> u64 {
        if let Kind::Declared(_, _, fingerprint) = self.0 { fingerprint } else { 0 }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match &self.0 {
            Kind::Constant(schedule) => schedule.check(),
            Kind::Declared(schedule, functions, _) => (functions.check)(schedule),
        }
    }
}
