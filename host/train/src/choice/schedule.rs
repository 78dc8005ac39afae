//! Schedules by name: learning rates in epochs, and the noise of each step. An epoch is `N/B` draws, for any
//! Poisson-sampled batch sizes.

use crate::TrainError;
use crate::state::replay::PackWriter;
use damper_core::accounting::Rate;
use damper_core::error::ConfigError;
use damper_core::schedule::{AnyNoise, CltNoise, Decay, LearningRate, NoiseSchedule};
use damper_onnx::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The learning rate and its schedule.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LearningRateChoice {
    /// `η`.
    pub lr: f64,
    /// Epochs of linear warm-up to `η`.
    pub warmup: f64,
    /// The decay.
    pub decay: DecayChoice,
}

/// The decay of a learning rate.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DecayChoice {
    /// No decay.
    #[default]
    Constant,
    /// Multiplies by a factor every given number of epochs.
    Step {
        /// Epochs between decays.
        epochs: f64,
        /// The factor of each decay.
        factor: f64,
    },
    /// Half a cosine over the run.
    Cosine {
        /// The fraction of the initial rate that is left at the end.
        floor: f64,
    },
    /// `1/√(a + c·t)`.
    Polynomial {
        /// `a`.
        offset: f64,
        /// `c`.
        slope: f64,
    },
    /// Linear in the square root of the step number.
    RootLinear {
        /// The fraction of the initial rate that is left at the end.
        floor: f64,
    },
}

/// The noise of each step, relative to the first step.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NoiseChoice {
    /// The same noise in every step.
    #[default]
    Constant,
    /// `(η_0/η_t)^p`.
    Matched {
        /// `p`.
        exponent: f64,
    },
    /// `(1 + g·t)^(p/2)`.
    Polynomial {
        /// `g`.
        growth: f64,
        /// `p`.
        exponent: f64,
    },
    /// Noise by the central limit theorem's privacy cost of a step.
    Clt,
}

/// Splits `NAME` or `NAME:NUMBER,NUMBER` into the name and the numbers. Returns `None` if a number does not parse.
fn parts(text: &str) -> Option<(&str, Vec<f64>)> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let numbers = rest.split(',').filter(|_| !rest.is_empty()).map(|number| number.trim().parse().ok());
    Some((name, numbers.collect::<Option<_>>()?))
}

/// Parses `NAME` or `NAME:NUMBER,NUMBER`.
impl FromStr for DecayChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match parts(text).as_ref().map(|(name, numbers)| (*name, numbers.as_slice())) {
            Some(("constant", [])) => Ok(Self::Constant),
            Some(("step", &[epochs, factor])) => Ok(Self::Step { epochs, factor }),
            Some(("cosine", [])) => Ok(Self::Cosine { floor: 0.0 }),
            Some(("cosine", &[floor])) => Ok(Self::Cosine { floor }),
            Some(("polynomial", &[offset, slope])) => Ok(Self::Polynomial { offset, slope }),
            Some(("root-linear", [])) => Ok(Self::RootLinear { floor: 1e-9 }),
            Some(("root-linear", &[floor])) => Ok(Self::RootLinear { floor }),
            _ => Err("give constant, step:EPOCHS,FACTOR, cosine, polynomial:A,C or root-linear"),
        }
    }
}

/// Parses `NAME` or `NAME:NUMBER,NUMBER`.
impl FromStr for NoiseChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match parts(text).as_ref().map(|(name, numbers)| (*name, numbers.as_slice())) {
            Some(("constant", [])) => Ok(Self::Constant),
            Some(("matched", &[exponent])) => Ok(Self::Matched { exponent }),
            Some(("polynomial", &[growth, exponent])) => Ok(Self::Polynomial { growth, exponent }),
            Some(("clt", [])) => Ok(Self::Clt),
            _ => Err("give constant, matched:P, polynomial:G,P or clt"),
        }
    }
}

/// Converts epochs to the nearest number of steps. A positive fraction of a step counts as 1.
fn draws(epochs: f64, rate: f64) -> u32 {
    match (epochs / rate).round().clamp(0.0, f64::from(u32::MAX)) as u32 {
        0 if epochs > 0.0 => 1,
        draws => draws,
    }
}

impl DecayChoice {
    /// Returns an error for values out of range.
    fn check(&self) -> Result<(), SettingError> {
        const POSITIVE: &str = "finite and above 0";
        let is_positive = |x: f64| x > 0.0 && x <= f64::MAX;
        let is_share = |x: f64| (0.0..=1.0).contains(&x);
        let (value, wrong) = match *self {
            Self::Constant => return Ok(()),
            Self::Step { epochs, factor } => {
                let wrong = match () {
                    () if !is_positive(epochs) => Some(("EPOCHS", POSITIVE)),
                    () if !(is_share(factor) && factor > 0.0) => Some(("FACTOR", "above 0 and at most 1")),
                    () => None,
                };
                (format!("step:{epochs},{factor}"), wrong)
            }
            Self::Cosine { floor } | Self::RootLinear { floor } => {
                let name = if matches!(self, Self::Cosine { .. }) { "cosine" } else { "root-linear" };
                (format!("{name}:{floor}"), (!is_share(floor)).then_some(("FLOOR", "from 0 to 1")))
            }
            Self::Polynomial { offset, slope } => {
                let wrong = match () {
                    () if !is_positive(offset) => Some(("A", POSITIVE)),
                    () if !(slope == 0.0 || is_positive(slope)) => Some(("C", "finite and not negative")),
                    () => None,
                };
                (format!("polynomial:{offset},{slope}"), wrong)
            }
        };
        let Some((number, must_be)) = wrong else { return Ok(()) };
        Err(SettingError::new("decay", value, format!("{number} must be {must_be}")))
    }

    /// Builds the decay for a run of `steps` draws, each of `rate` epochs.
    fn build(&self, rate: f64, steps: u32) -> Decay {
        match *self {
            Self::Constant => Decay::Constant,
            Self::Step { epochs, factor } => Decay::Step { every: draws(epochs, rate), factor },
            Self::Cosine { floor } => Decay::Cosine { steps, floor },
            Self::Polynomial { offset, slope } => Decay::Polynomial { offset, slope },
            Self::RootLinear { floor } => Decay::RootLinear { steps, floor },
        }
    }
}

impl LearningRateChoice {
    /// Builds the learning rate for a run of `steps` draws at `rate`.
    pub(crate) fn build(&self, rate: Rate, steps: u32) -> Result<LearningRate, TrainError> {
        self.decay.check()?;
        let (rate, warmup) = (rate.as_f64(), draws(self.warmup, rate.as_f64()));
        Ok(LearningRate::new(self.lr, warmup, self.decay.build(rate, steps))?)
    }

    /// Writes the learning rate of such a run in the recording format.
    pub(crate) fn record(&self, rate: Rate, steps: u32, pack: &mut PackWriter) {
        pack.f64(self.lr);
        pack.u32(draws(self.warmup, rate.as_f64()));
        self.decay.build(rate.as_f64(), steps).write(pack);
    }
}

impl NoiseChoice {
    /// Builds the schedule of a run with the noise multiplier `first` in its first step.
    pub(crate) fn build(&self, first: f64) -> Result<AnyNoise, ConfigError> {
        Ok(AnyNoise::Schedule(match *self {
            Self::Constant => NoiseSchedule::Constant,
            Self::Matched { exponent } => NoiseSchedule::Matched { exponent },
            Self::Polynomial { growth, exponent } => NoiseSchedule::Polynomial { growth, exponent },
            Self::Clt => return Ok(AnyNoise::Clt(CltNoise::new(first)?)),
        }))
    }

    /// Writes the schedule in the recording format.
    pub(crate) fn record(&self, pack: &mut PackWriter) -> Result<(), ConfigError> {
        match self.build(1.0)? {
            AnyNoise::Schedule(schedule) => schedule.write(pack),
            // Rejected before the run.
            AnyNoise::Clt(_) => pack.u8(u8::MAX),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_from_their_names() {
        for (text, expected) in [
            ("step:2,0.5", Some(DecayChoice::Step { epochs: 2.0, factor: 0.5 })),
            ("cosine", Some(DecayChoice::Cosine { floor: 0.0 })),
            ("cosine: 0.1", Some(DecayChoice::Cosine { floor: 0.1 })),
            ("root-linear", Some(DecayChoice::RootLinear { floor: 1e-9 })),
            ("polynomial:20,1", Some(DecayChoice::Polynomial { offset: 20.0, slope: 1.0 })),
            ("constant:", Some(DecayChoice::Constant)),
            ("constant:1", None),
            ("polynomial", None),
            ("step:2", None),
            ("step:2,0.5,1", None),
            ("cosine:x", None),
            ("linear", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("matched:0.5", Some(NoiseChoice::Matched { exponent: 0.5 })),
            ("polynomial:0.1,0.5", Some(NoiseChoice::Polynomial { growth: 0.1, exponent: 0.5 })),
            ("clt", Some(NoiseChoice::Clt)),
            ("matched", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        for (decay, expected) in [
            (DecayChoice::Step { epochs: 0.0, factor: 0.5 }, "step:0,0.5: EPOCHS must be finite and above 0"),
            (DecayChoice::Step { epochs: 1.0, factor: 0.0 }, "step:1,0: FACTOR must be above 0 and at most 1"),
            (DecayChoice::Cosine { floor: f64::NAN }, "cosine:NaN: FLOOR must be from 0 to 1"),
            (DecayChoice::RootLinear { floor: 1.5 }, "root-linear:1.5: FLOOR must be from 0 to 1"),
            (
                DecayChoice::Polynomial { offset: f64::INFINITY, slope: 1.0 },
                "polynomial:inf,1: A must be finite and above 0",
            ),
            (
                DecayChoice::Polynomial { offset: 1.0, slope: -1.0 },
                "polynomial:1,-1: C must be finite and not negative",
            ),
        ] {
            let error = decay.check().unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
        assert!(DecayChoice::Polynomial { offset: 1.0, slope: 0.0 }.check().is_ok());
    }
}
