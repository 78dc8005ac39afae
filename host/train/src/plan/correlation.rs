//! Settings of correlated noise, and the noise of a run: its matrix, the participation pattern of a sample, and σ.
//!
//! Everything is fixed before data is read, from the configuration and the numbers of samples and parameters. A fixed
//! order or cyclic Poisson sampling determines the pattern ([`sampler`](crate::engine::sampler)). The core has the
//! noise and its proof (`damper_core::noise::CorrelatedGaussian`).

use crate::engine::sampler::epoch_steps;
use crate::plan::before_steps::BeforeSteps;
use crate::{Budget, NoiseChoice, NoiseCorrelation, NoiseKind, TrainConfig, TrainError};
use damper_accounting::factor::{Objective, optimize, optimize_banded};
use damper_accounting::{AccountingError, CorrelatedRun, DrawSchedule, Plan, Sampler};
use damper_core::accounting::Rate;
use damper_core::noise::{AnyCorrelation, Correlation, Participation};
use damper_onnx::SettingError;
use std::fmt;

/// Returns an error for settings without a privacy cost, with the reason.
pub(crate) fn check(config: &TrainConfig) -> Result<(), TrainError> {
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
        _ if config.noise == NoiseKind::Continuous => {
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

/// Returns the participation pattern of a sample in a run of `steps` steps on `samples` samples.
fn participation(config: &TrainConfig, steps: u32, samples: u64) -> Result<Participation, TrainError> {
    if steps > Participation::MAX_STEPS {
        return Err(AccountingError::FactorizedSteps(steps.into()).into());
    }
    let separation = match config.sampler {
        Sampler::CyclicPoisson => config.groups(),
        _ => epoch_steps(samples, config.batch_size),
    };
    Ok(Participation::new(steps, separation, steps.div_ceil(separation.max(1)))?)
}

/// Returns the run of these steps, before σ is known.
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
    let objective = config.noise_objective.unwrap_or(Objective::Mean);
    let correlation = match config.noise_correlation {
        NoiseCorrelation::None => return Err(refuse("nothing is correlated")),
        NoiseCorrelation::Lambda(lambda) => lambda.into(),
        NoiseCorrelation::Blt(buffers) => {
            let blt = optimize(participation, buffers, objective)?;
            if blt.theta().is_empty() {
                return Err(refuse("no buffer gains anything over independent noise in this run; use none"));
            }
            AnyCorrelation::blt(blt.theta(), &blt.omega())?
        }
        NoiseCorrelation::Banded(bands) if bands > participation.separation() => {
            let problem = format!(
                "two steps of a sample are {} apart at least, so more bands would reach from one to the next; give fewer",
                participation.separation()
            );
            return Err(SettingError::new("noise_correlation", config.noise_correlation, problem).into());
        }
        NoiseCorrelation::Banded(bands) => AnyCorrelation::banded(&optimize_banded(participation, bands, objective)?)?,
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

/// Rounds of correcting σ if the rounding of an accountant misses the target.
const ROUNDS: u32 = 16;

/// Returns the run with its σ, and its plan. `rate` is the sampling rate of a draw.
pub(crate) fn priced(
    config: &TrainConfig,
    steps: u32,
    samples: u64,
    parameters: usize,
    rate: Rate,
) -> Result<(CorrelatedRun, Plan), TrainError> {
    let run = unpriced(config, steps, samples, parameters, rate)?;
    let (event, times) = run.event()?;
    let release = BeforeSteps::of(config)?.joint()?;
    let schedule = DrawSchedule { release, ..DrawSchedule::constant(config.accountant, event.rate(), times) };
    let at = |multiplier: f64| -> Result<(CorrelatedRun, Plan), AccountingError> {
        let run = run.with_multiplier(multiplier)?;
        let (event, times) = run.event()?;
        Ok((run, Plan::constant(event.rate(), event.multiplier(), None, times)?.with_release(release)))
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

/// Returns the same noise for other steps, samples and parameters, as an audit trains on them. The privacy cost does
/// not carry over.
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

/// Returns the root loss of the correlated noise divided by that of independent noise at the same privacy cost, for the
/// sum over steps. Below 1 is a gain.
pub(crate) fn loss_share(run: &CorrelatedRun) -> f64 {
    let participation = run.participation;
    let times = f64::from(participation.participations());
    let ours = match run.rate {
        None => run.correlation.sensitivity(participation) / times.sqrt(),
        Some(_) => run.sensitivity(),
    };
    ours * (run.correlation.error(participation) / f64::from(participation.steps())).sqrt()
}
