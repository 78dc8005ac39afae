//! Learning rates: `η_t = η · warm-up(t) · decay(t)`, steps counted from 0.
//!
//! | decay | factor |
//! | --- | --- |
//! | constant | 1 |
//! | step | `factor^⌊t/every⌋` |
//! | cosine | `floor + (1 − floor)·(1 + cos(πt/T))/2` |
//! | polynomial (ADP, proposition 5.1) | `1/√(a + c·t)` |
//! | linear in √t (ADP, table 1) | `1 − (1 − floor)·√(t/T)` |
//!
//! Warm-up over `w` steps multiplies step `t < w` by `(t+1)/w`. After `T`, the last value remains.
//!
//! # Memory
//!
//! None.
//!
//! # Numerics
//!
//! Computed in f64, once a step. Cosine and powers have the bits of `libm`. `f_t` is the factor in the table, with
//! every operation rounded separately:
//!
//! - Step: the power of `factor`. Polynomial: `1/√(a + (c·t))`.
//! - With `x = min(t, T)/T`: cosine is `floor + (((1 − floor)·(1 + cos(π·x)))/2)`, with `π` the nearest f64. Linear in
//!   √t is `1 − ((1 − floor)·√x)`.
//! - `η_t = η·f_t`, and during warm-up `(η·f_t)·((t+1)/w)`.
//!
//! # Privacy
//!
//! Public: a function of constants.

use crate::error::ConfigError;
use crate::numerics::scalar::{cos, pow, sqrt};
use crate::record::{RecordSink, RecordSource};

/// Decay of the learning rate.
///
/// ```
/// use damper_core::schedule::{Decay, LearningRate};
///
/// let at = |decay, step| LearningRate::new(0.5, 0, decay).map(|rate| rate.at(step));
/// assert_eq!(at(Decay::Step { every: 10, factor: 0.5 }, 25)?, 0.125);
/// assert!((at(Decay::Cosine { steps: 100, floor: 0.0 }, 50)? - 0.25).abs() < 1e-12);
/// assert_eq!(at(Decay::Polynomial { offset: 1.0, slope: 1.0 }, 3)?, 0.25);
/// assert_eq!(at(Decay::RootLinear { steps: 100, floor: 0.0 }, 25)?, 0.25);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decay {
    /// No decay.
    Constant,
    /// Multiplies by `factor` every `every` steps.
    Step {
        /// Number of steps between decays, at least 1.
        every: u32,
        /// Factor of each decay, in `(0, 1]`.
        factor: f64,
    },
    /// Half a cosine over `steps`, down to `floor` times the start.
    Cosine {
        /// `T`, at least 1.
        steps: u32,
        /// In `[0, 1]`.
        floor: f64,
    },
    /// `1/√(a + c·t)`.
    Polynomial {
        /// `a`, above 0.
        offset: f64,
        /// `c`, at least 0.
        slope: f64,
    },
    /// `1 − (1 − floor)·√(t/T)`.
    RootLinear {
        /// `T`, at least 1.
        steps: u32,
        /// In `[0, 1]`.
        floor: f64,
    },
}

impl Decay {
    /// Writes the decay in the format of recordings.
    ///
    /// ```
    /// use damper_core::record::RecordSink;
    /// use damper_core::schedule::Decay;
    ///
    /// struct Bytes(Vec<u8>);
    /// impl RecordSink for Bytes {
    ///     fn put(&mut self, bytes: &[u8]) {
    ///         self.0.extend(bytes);
    ///     }
    /// }
    ///
    /// let mut bytes = Bytes(vec![]);
    /// Decay::Step { every: 3, factor: 0.5 }.write(&mut bytes);
    /// assert_eq!(bytes.0, [&[1, 3, 0, 0, 0], &0.5f64.to_le_bytes()[..]].concat());
    /// ```
    pub fn write(&self, sink: &mut dyn RecordSink) {
        match *self {
            Self::Constant => sink.u8(0),
            Self::Step { every, factor } => {
                sink.u8(1);
                sink.u32(every);
                sink.f64(factor);
            }
            Self::Cosine { steps, floor } => {
                sink.u8(2);
                sink.u32(steps);
                sink.f64(floor);
            }
            Self::Polynomial { offset, slope } => {
                sink.u8(3);
                sink.f64(offset);
                sink.f64(slope);
            }
            Self::RootLinear { steps, floor } => {
                sink.u8(4);
                sink.u32(steps);
                sink.f64(floor);
            }
        }
    }

    /// Reads a decay.
    ///
    /// # Errors
    ///
    /// Fails if the decay is unknown. [`LearningRate::new`] checks its settings.
    pub fn read<R: RecordSource>(source: &mut R) -> Result<Self, R::Error> {
        Ok(match source.u8() {
            0 => Self::Constant,
            1 => Self::Step { every: source.u32(), factor: source.f64() },
            2 => Self::Cosine { steps: source.u32(), floor: source.f64() },
            3 => Self::Polynomial { offset: source.f64(), slope: source.f64() },
            4 => Self::RootLinear { steps: source.u32(), floor: source.f64() },
            _ => return Err(R::wrong("kind of learning rate")),
        })
    }

    /// Returns the factor function of this kind of decay. If the kind is a compile-time constant, the program links no
    /// other kind.
    #[inline(always)]
    pub(crate) fn function(&self) -> fn(&Self, u32) -> f64 {
        match self {
            Self::Constant => |_, _| 1.0,
            Self::Step { .. } => Self::by_steps,
            Self::Cosine { .. } => Self::by_cosine,
            Self::Polynomial { .. } => Self::by_polynomial,
            Self::RootLinear { .. } => Self::by_root,
        }
    }

    fn by_steps(&self, step: u32) -> f64 {
        let Self::Step { every, factor } = *self else { return 1.0 };
        pow(factor, f64::from(step.checked_div(every).unwrap_or_default()))
    }

    fn by_cosine(&self, step: u32) -> f64 {
        let Self::Cosine { steps, floor } = *self else { return 1.0 };
        floor + (1.0 - floor) * (1.0 + cos(core::f64::consts::PI * share(step, steps))) / 2.0
    }

    fn by_polynomial(&self, step: u32) -> f64 {
        let Self::Polynomial { offset, slope } = *self else { return 1.0 };
        1.0 / sqrt(offset + slope * f64::from(step))
    }

    fn by_root(&self, step: u32) -> f64 {
        let Self::RootLinear { steps, floor } = *self else { return 1.0 };
        1.0 - (1.0 - floor) * sqrt(share(step, steps))
    }
}

/// Returns `min(t, T)/T` for the declared number of steps, which is not 0.
fn share(step: u32, steps: u32) -> f64 {
    f64::from(step.min(steps)) / f64::from(steps)
}

/// Learning rate of each step.
///
/// ```
/// use damper_core::schedule::{Decay, LearningRate};
///
/// // Warm-up over four steps.
/// let rate = LearningRate::new(0.5, 4, Decay::Constant)?;
/// assert_eq!([0, 1, 3, 100].map(|step| rate.at(step)), [0.125, 0.25, 0.5, 0.5]);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LearningRate {
    base: f64,
    warmup: u32,
    decay: Decay,
}

impl LearningRate {
    /// Creates a learning rate of `base` after a warm-up of `warmup` steps, with `decay`.
    ///
    /// # Errors
    ///
    /// Fails unless `base` is finite and above 0, and the decay's settings are in their ranges.
    pub fn new(base: f64, warmup: u32, decay: Decay) -> Result<Self, ConfigError> {
        if !(base.is_finite() && base > 0.0) {
            return Err(ConfigError::new("learning rate", "finite and above 0"));
        }
        let part = |x: f64| (0.0..=1.0).contains(&x);
        let good = match decay {
            Decay::Constant => true,
            Decay::Step { every, factor } => every > 0 && part(factor) && factor > 0.0,
            Decay::Cosine { steps, floor } | Decay::RootLinear { steps, floor } => steps > 0 && part(floor),
            Decay::Polynomial { offset, slope } => {
                offset.is_finite() && offset > 0.0 && slope.is_finite() && slope >= 0.0
            }
        };
        if good {
            Ok(Self { base, warmup, decay })
        } else {
            Err(ConfigError::new("learning-rate schedule", "one with steps of at least 1 and factors from 0 to 1"))
        }
    }

    /// Returns the learning rate of step `step`, counted from 0.
    #[must_use]
    pub fn at(&self, step: u32) -> f64 {
        self.by(self.decay.function(), step)
    }

    /// Returns everything that the learning rates depend on.
    #[inline]
    pub(super) fn words(&self) -> [u64; 4] {
        let (kind, first, second): (u64, u64, u64) = match self.decay {
            Decay::Constant => (0, 0, 0),
            Decay::Step { every, factor } => (1, u64::from(every), factor.to_bits()),
            Decay::Cosine { steps, floor } => (2, u64::from(steps), floor.to_bits()),
            Decay::Polynomial { offset, slope } => (3, offset.to_bits(), slope.to_bits()),
            Decay::RootLinear { steps, floor } => (4, u64::from(steps), floor.to_bits()),
        };
        [self.base.to_bits(), kind << 32 | u64::from(self.warmup), first, second]
    }

    /// Returns the decay.
    #[inline(always)]
    pub(crate) fn decay(&self) -> &Decay {
        &self.decay
    }

    /// Returns the learning rate of a step by its decay's [function](Decay::function).
    #[inline]
    pub(crate) fn by(&self, factor: fn(&Decay, u32) -> f64, step: u32) -> f64 {
        let rate = self.base * factor(&self.decay, step);
        if step < self.warmup { rate * ((f64::from(step) + 1.0) / f64::from(self.warmup)) } else { rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(warmup: u32, decay: Decay) -> LearningRate {
        LearningRate::new(0.5, warmup, decay).unwrap()
    }

    #[test]
    fn rates_follow_their_formulas() {
        assert_eq!(rate(0, Decay::Constant).at(u32::MAX), 0.5);
        let step = rate(0, Decay::Step { every: 10, factor: 0.5 });
        assert_eq!([0, 9, 10, 29, 30].map(|t| step.at(t)), [0.5, 0.5, 0.25, 0.125, 0.0625]);
        let cosine = rate(0, Decay::Cosine { steps: 100, floor: 0.0 });
        assert_eq!(cosine.at(0), 0.5);
        assert!(
            (cosine.at(50) - 0.25).abs() < 1e-16 && cosine.at(100).abs() < 1e-16 && cosine.at(101) == cosine.at(100)
        );
        let polynomial = rate(0, Decay::Polynomial { offset: 20.0, slope: 1.0 });
        assert!((polynomial.at(5) - 0.1).abs() < 1e-16);
        let linear = LearningRate::new(0.1, 0, Decay::RootLinear { steps: 11760, floor: 1e-9 }).unwrap();
        assert!((linear.at(2940) - (0.1 - (0.1 - 1e-10) / 2.0)).abs() < 1e-12 && linear.at(11760) > 0.0);
    }

    #[test]
    fn warmup_reaches_base_at_last_step() {
        let warm = rate(4, Decay::Constant);
        assert_eq!([0, 1, 2, 3, 4].map(|t| warm.at(t)), [0.125, 0.25, 0.375, 0.5, 0.5]);
    }

    #[test]
    fn schedules_out_of_range_are_refused() {
        for base in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LearningRate::new(base, 0, Decay::Constant).is_err());
        }
        for decay in [
            Decay::Step { every: 0, factor: 0.5 },
            Decay::Step { every: 1, factor: 0.0 },
            Decay::Cosine { steps: 0, floor: 0.0 },
            Decay::Cosine { steps: 1, floor: f64::NAN },
            Decay::Polynomial { offset: 0.0, slope: 1.0 },
            Decay::RootLinear { steps: 5, floor: 2.0 },
        ] {
            assert!(LearningRate::new(0.1, 0, decay).is_err(), "{decay:?}");
        }
    }
}
