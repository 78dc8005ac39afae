//! Correlated noise as it is asked for, and its run: matrix, pattern of the samples' steps, σ.
//!
//! Everything is fixed before data is read, from the configuration and the numbers of samples and parameters. A fixed order or cyclic
//! Poisson draws give the pattern ([`sampler`](super::sampler)); the core proves and runs the noise (`damper_core::noise::CorrelatedGaussian`).

use super::sampler::epoch_steps;
use super::{Budget, Noise, NoiseChoice, TrainConfig, TrainError};
use damper_accounting::factor::{self, MAX_STEPS, Objective, optimize, optimize_banded};
use damper_accounting::{AccountingError, CorrelatedRun, Plan, Sampler, Schedule};
use damper_core::accounting::Rate;
use damper_core::noise::{AnyCorrelation, Correlation, Lambda, Participation};
use damper_onnx::SettingError;
use std::fmt;
use std::str::FromStr;

/// The correlation of the noise of successive steps.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum NoiseCorrelation {
    /// None: independent noise.
    #[default]
    None,
    /// One step back.
    Lambda(Lambda),
    /// A BLT of at most so many buffers, optimised for the run.
    Blt(u32),
    /// So many bands, optimised for the run.
    Banded(u32),
}

impl FromStr for NoiseCorrelation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORMS: &str = "give none, lambda:P/Q with Q a power of two up to 65536 and P below it, blt:1 to blt:4, or banded:2 to \
                             banded:256";
        let number = |text: &str, most: u32| text.parse().ok().filter(|number: &u32| *number <= most);
        let found = match text.split_once(':') {
            None => (text == "none").then_some(Self::None),
            Some(("lambda", fraction)) => fraction.split_once('/').and_then(|(p, q)| {
                let (p, q) = (number(p, 1 << 16)?, number(q, 1 << 16).filter(|q| q.is_power_of_two())?);
                Lambda::new(p, q.trailing_zeros()).ok().map(Self::Lambda)
            }),
            Some(("blt", buffers)) => number(buffers, 4).filter(|buffers| *buffers > 0).map(Self::Blt),
            Some(("banded", bands)) => number(bands, factor::MAX_BANDS).filter(|bands| *bands > 1).map(Self::Banded),
            Some(_) => None,
        };
        found.ok_or(FORMS)
    }
}

impl fmt::Display for NoiseCorrelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lambda(lambda) => write!(f, "lambda:{}/{}", lambda.fraction().0, lambda.fraction().1),
            Self::Blt(buffers) => write!(f, "blt:{buffers}"),
            Self::Banded(bands) => write!(f, "banded:{bands}"),
        }
    }
}

impl NoiseCorrelation {
    /// Returns true if the noise of steps is independent.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::None
    }
}

/// Refuses settings that go with no price, with the reason.
pub(super) fn check(config: &TrainConfig) -> Result<(), TrainError> {
    let refuse = |setting, value: &dyn fmt::Display, problem| Err(SettingError::new(setting, value, problem).into());
    if config.groups.is_some() && config.sampler != Sampler::CyclicPoisson {
        return refuse("groups", &"", "are of cyclic Poisson draws; add `sampler` cyclic-poisson, or leave it out");
    }
    if config.truncate.is_some() && config.sampler == Sampler::CyclicPoisson {
        return refuse("truncate", &"", "cut draws are priced for `sampler` poisson alone; leave it out");
    }
    if config.dataset_size.is_some() && config.sampler == Sampler::CyclicPoisson {
        let problem = "the groups are of the samples that there are; leave it out, or use `sampler` poisson";
        return refuse("dataset_size", &"", problem);
    }
    let correlation = config.noise_correlation;
    if config.sampler == Sampler::CyclicPoisson && config.groups.is_none() && correlation.is_none() {
        let problem = "cyclic-poisson needs a number of groups; add `groups`";
        return refuse("sampler", &"", problem);
    }
    if correlation.is_none() {
        return match config.noise_objective {
            None => Ok(()),
            Some(_) => refuse("noise_objective", &"", "is for `noise_correlation` blt and banded; leave it out"),
        };
    }
    let refused = match (correlation, config.sampler) {
        _ if config.is_not_private() => Some("a run that is not private has no noise; leave one of them out"),
        (_, Sampler::Poisson) => Some(
            "with Poisson draws a sample may come at neighbouring steps, whose noise partly cancels, and no price of that is known; use \
             `sampler` min-separation, or bands with cyclic-poisson",
        ),
        (_, Sampler::Shuffled) => Some(
            "a new order each epoch may bring a sample at neighbouring steps, whose noise partly cancels, and no price of that is known; \
             use `sampler` min-separation",
        ),
        (NoiseCorrelation::Lambda(_) | NoiseCorrelation::Blt(_), Sampler::CyclicPoisson) => Some(
            "its noise reaches past a cycle of groups, so two draws of a sample would share noise; use banded:B, or `sampler` \
             min-separation",
        ),
        _ if config.noise == Noise::Continuous => {
            Some("is proven for integers, where rounding is part of the price; use `noise` discrete")
        }
        _ if config.method.threshold.wants_count_noise() => Some(
            "noise of steps cancels in units of one clip, and counts beside it have no price; use a fixed `clip`, or `noise_correlation` none",
        ),
        _ if config.method.noise_schedule != NoiseChoice::default() => {
            Some("noise that changes over steps does not cancel and has no price; leave out `noise_schedule`")
        }
        _ if matches!(config.budget, Budget::Equation6(_)) => {
            Some("ADP's equation knows independent noise alone; use `epsilon` or `noise_multiplier`")
        }
        _ => None,
    };
    match refused {
        Some(problem) => refuse("noise_correlation", &correlation, problem),
        None => Ok(()),
    }
}

/// The steps of a sample in a run of `steps` steps on `samples` samples.
fn participation(config: &TrainConfig, steps: u32, samples: u64) -> Result<Participation, TrainError> {
    if u64::from(steps) > MAX_STEPS {
        return Err(AccountingError::FactorizedSteps(steps.into()).into());
    }
    let separation = match config.sampler {
        Sampler::CyclicPoisson => config.groups(),
        _ => epoch_steps(samples, config.batch_size),
    };
    Ok(Participation::new(steps, separation, steps.div_ceil(separation.max(1)))?)
}

/// The run of these steps, before σ is known.
fn unpriced(
    config: &TrainConfig,
    steps: u32,
    samples: u64,
    parameters: usize,
    rate: Rate,
) -> Result<CorrelatedRun, TrainError> {
    let refuse = |problem| SettingError::new("noise_correlation", config.noise_correlation, problem).into();
    let participation = participation(config, steps, samples)?;
    if participation.separation() == 1 {
        return Err(refuse("every sample is in every step, where independent noise is best; use none"));
    }
    let of_factor = factor::Participation::new(
        steps.into(),
        participation.separation().into(),
        participation.participations().into(),
    )?;
    let objective = config.noise_objective.unwrap_or(Objective::Mean);
    let correlation = match config.noise_correlation {
        NoiseCorrelation::None => return Err(refuse("nothing is correlated")),
        NoiseCorrelation::Lambda(lambda) => lambda.into(),
        NoiseCorrelation::Blt(buffers) => {
            let blt = optimize(of_factor, buffers, objective)?;
            if blt.theta().is_empty() {
                return Err(refuse("no buffer gains anything over independent noise in this run; use none"));
            }
            AnyCorrelation::blt(blt.theta(), &blt.omega())?
        }
        NoiseCorrelation::Banded(bands) => AnyCorrelation::banded(&optimize_banded(of_factor, bands, objective)?)?,
    };
    Ok(CorrelatedRun {
        correlation,
        participation,
        rate: (config.sampler == Sampler::CyclicPoisson).then_some(rate),
        parameters: u32::try_from(parameters).unwrap_or(u32::MAX),
        grid_bits: config.grid_bits,
        sigma: 1 << 30,
    })
}

/// Rounds of settling a miss of the target by the rounding of an accountant.
const ROUNDS: u32 = 16;

/// The run with its σ, and its plan. `rate` is that of a draw.
pub(super) fn priced(
    config: &TrainConfig,
    steps: u32,
    samples: u64,
    parameters: usize,
    rate: Rate,
) -> Result<(CorrelatedRun, Plan), TrainError> {
    let run = unpriced(config, steps, samples, parameters, rate)?;
    let (event, times) = run.event()?;
    let schedule = Schedule::constant(config.accountant, event.rate(), times);
    let at = |multiplier: f64| -> Result<(CorrelatedRun, Plan), AccountingError> {
        let run = run.with_multiplier(multiplier)?;
        let (event, times) = run.event()?;
        Ok((run, Plan::constant(event.rate(), event.multiplier(), None, times)?))
    };
    match config.budget {
        Budget::NoiseMultiplier(multiplier) => Ok(at(multiplier)?),
        Budget::Epsilon(target) => {
            let mut multiplier = schedule.calibrate(target, config.delta)?.multiplier;
            for _ in 0..ROUNDS {
                let (run, plan) = at(multiplier)?;
                if plan.epsilon(config.accountant, config.delta)?.epsilon <= target {
                    return Ok((run, plan));
                }
                multiplier *= 1.0 + 1e-4;
            }
            Err(AccountingError::Epsilon(target).into())
        }
        Budget::Equation6(_) | Budget::NotPrivate => Err(AccountingError::NotPrivate.into()),
    }
}

/// The same noise for other steps, samples and parameters, as an audit trains on them: what it costs is another question.
pub(crate) fn fitted(
    run: CorrelatedRun,
    config: &TrainConfig,
    steps: u32,
    samples: u64,
    parameters: usize,
) -> Result<CorrelatedRun, TrainError> {
    let parameters = u32::try_from(parameters).unwrap_or(u32::MAX);
    Ok(CorrelatedRun { participation: participation(config, steps, samples)?, parameters, ..run })
}

/// Root loss of the correlated noise over that of independent noise at the same price, for the sum over steps: below 1 is a gain.
pub(super) fn loss_share(run: &CorrelatedRun) -> f64 {
    let participation = run.participation;
    let times = f64::from(participation.participations());
    let ours = match run.rate {
        None => run.correlation.sensitivity(participation) / times.sqrt(),
        Some(_) => run.sensitivity(),
    };
    ours * (run.correlation.error(participation) / f64::from(participation.steps())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        for text in ["none", "lambda:15/16", "blt:1", "blt:4", "banded:2", "banded:256"] {
            assert_eq!(text.parse::<NoiseCorrelation>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "lambda",
            "lambda:16/16",
            "lambda:0/4",
            "lambda:1/3",
            "lambda:1/131072",
            "blt:0",
            "blt:5",
            "banded:1",
            "banded:257",
            "none:1",
        ] {
            assert!(text.parse::<NoiseCorrelation>().is_err(), "{text}");
        }
    }
}
