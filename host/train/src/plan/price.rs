//! The price of a run: rate, steps and noise, from the configuration and the number of samples alone.

use crate::engine::sampler::{epoch_steps, steps_per_event};
use crate::plan::before_steps::{self, BeforeSteps};
use crate::plan::correlation;
use crate::plan::equation6;
use crate::{Budget, FilterChoice, Noise, Run, Terms, TrainConfig, TrainError};
use damper_accounting::{
    AccountingError, CorrelatedRun, DeltaVerdict, Factors, Plan, SMALLEST_SIGMA, Sampler, Schedule, Truncated,
    Truncation, judge_delta,
};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_core::grid::Grid;
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian, NoiseWord};
use damper_core::private::Mechanism;
use damper_core::schedule::{AnyNoise, LearningRate, Noise as _, NoiseSchedule};
use damper_core::threshold::CountNoise;
use damper_onnx::SettingError;

/// A priced run.
pub(crate) struct Priced {
    pub(crate) terms: Terms,
    /// The probability that a draw is cut.
    pub(crate) cut: f64,
    /// None if the run is not private.
    pub(crate) plan: Option<Plan>,
    pub(crate) warnings: Vec<String>,
    pub(crate) warnings_of_data: Vec<String>,
}

/// Prices a run of so many parameters on `samples` samples, without their data. Sets the noise of counts and of releases before the steps
/// that `config` leaves open.
pub(crate) fn price(config: &mut TrainConfig, samples: u64, parameters: usize) -> Result<Priced, TrainError> {
    match config.budget {
        Budget::Epsilon(target) => before_steps::settle(config, target)?,
        _ => before_steps::settle_given(config)?,
    }
    let mut priced = price_steps(config, samples, parameters)?;
    if let Some(plan) = &mut priced.plan {
        before_steps::settle_open(config, plan)?;
        *plan = plan.clone().with_release(BeforeSteps::of(config)?.joint()?);
    }
    Ok(priced)
}

/// Prices the steps, with the releases before them whose noise is known.
fn price_steps(config: &mut TrainConfig, samples: u64, parameters: usize) -> Result<Priced, TrainError> {
    let declared = config.dataset_size.unwrap_or(samples);
    let batch = u64::from(config.batch_size);
    let rate = Rate::of(batch, declared).map_err(|_| {
        if config.dataset_size.is_none() {
            let problem = format!("above the {declared} samples; lower it, or give `dataset_size`");
            return SettingError::new("batch_size", batch, problem);
        }
        let problem = format!("below `batch_size` {batch}; raise it, or lower the batch size");
        SettingError::new("dataset_size", declared, problem)
    })?;
    let per_epoch = match config.sampler {
        Sampler::Poisson | Sampler::CyclicPoisson => declared as f64 / batch as f64,
        Sampler::Shuffled | Sampler::MinSeparation => f64::from(epoch_steps(samples, config.batch_size)),
    };
    let steps = (config.epochs * per_epoch).ceil();
    if !(steps >= 1.0 && steps < f64::from(u32::MAX)) {
        let fix = if steps < 1.0 { "more" } else { "fewer: there may be 4,294,967,294" };
        return Err(SettingError::new("epochs", config.epochs, format!("gives {steps} steps; give {fix}")).into());
    }
    let steps = steps as u32;
    let steps_per_event = steps_per_event(config, samples, steps);
    let event_rate = match config.sampler {
        Sampler::Poisson => rate,
        Sampler::Shuffled | Sampler::MinSeparation => Rate::ONE,
        Sampler::CyclicPoisson => {
            let groups = config.groups();
            Rate::of(batch.saturating_mul(groups.into()), samples).map_err(|_| {
                let problem = format!("times {groups} groups is above the {samples} samples; lower it, or `groups`");
                SettingError::new("batch_size", batch, problem)
            })?
        }
    };
    let mut warnings = Vec::new();
    if !config.is_not_private() {
        warnings.extend(judge_delta(config.delta, declared, config.allow_large_delta)?.warning(config.delta, declared));
    }
    let mut warnings_of_data = Vec::new();
    if declared < samples && !config.is_not_private() {
        check_delta_of_counted(config, declared, samples, &mut warnings_of_data)?;
    }
    let learning_rate = config.method.learning_rate.build(rate, steps)?;
    if config.is_not_private() {
        let noise_schedule = config.method.noise_schedule.build(1.0)?;
        let terms = Terms {
            rate,
            event_rate,
            steps_per_event,
            correlated: None,
            truncation: None,
            steps,
            learning_rate,
            noise_schedule,
            multiplier: 0.0,
            sigma_grid: None,
            count_noise: None,
        };
        return Ok(Priced { terms, cut: 0.0, plan: None, warnings: vec![], warnings_of_data: vec![] });
    }
    if !config.noise_correlation.is_none() {
        let (correlated, plan) = correlation::priced(config, steps, samples, parameters, event_rate)?;
        warnings.extend(of_correlated(config, &correlated)?);
        let terms = Terms {
            rate,
            event_rate,
            steps_per_event,
            correlated: Some(correlated),
            truncation: None,
            steps,
            learning_rate,
            noise_schedule: config.method.noise_schedule.build(1.0)?,
            multiplier: plan.smallest_multiplier(),
            sigma_grid: Some(correlated.sigma),
            count_noise: None,
        };
        correlated.mechanism::<[NoiseWord; 0]>()?.check_clip(config.method.threshold.clip())?;
        return Ok(Priced { terms, cut: 0.0, plan: Some(plan), warnings, warnings_of_data });
    }
    if let Budget::Equation6(epsilon) = config.budget {
        let factors = factors(config.method.noise_schedule.build(1.0)?, &learning_rate, steps);
        let multiplier = equation6::multiplier(epsilon, rate, steps, config.delta, factors.as_deref())?;
        config.budget = Budget::NoiseMultiplier(multiplier);
        warnings.push(format!(
            "`equation_6` {epsilon}: sets the noise to {multiplier:.6} clips; epsilon is the accountant's, and not {epsilon}"
        ));
    }
    let mut noise_schedule = config.method.noise_schedule.build(match config.budget {
        Budget::NoiseMultiplier(multiplier) => multiplier,
        _ => 1.0,
    })?;
    let mut factors = factors(noise_schedule, &learning_rate, steps);
    let events = u64::from(steps.div_ceil(steps_per_event));
    let per_event = |factors: Option<Vec<f64>>| {
        // Of several steps, such as an epoch, the least noise counts.
        let least = |steps: &[f64]| steps.iter().copied().fold(f64::INFINITY, f64::min);
        factors.map(|factors| factors.chunks(steps_per_event as usize).map(least).collect())
    };
    factors = per_event(factors);
    if matches!(config.sampler, Sampler::Shuffled | Sampler::MinSeparation) {
        let sampler = config.sampler.name();
        warnings.push(format!(
            "`sampler` {sampler}: nothing is gained by sampling, an epoch counts as one event at a rate of 1 ({events} of them)"
        ));
    }
    let truncation = config.truncate.map(|most| Truncation { samples, most });
    let cut = truncation
        .map_or(Ok(0.0), |cut| SampledGaussian::new(rate, 1.0).map(|draw| cut.any(&[(draw, u64::from(steps))])))?;
    // At the target, ε takes the largest share of δ for what is cut.
    let calibrated_delta = match (truncation, config.budget) {
        (Some(truncation), Budget::Epsilon(target)) => truncation.left(config.delta, target, cut)?,
        _ => config.delta,
    };
    let mut schedule = Schedule {
        accountant: config.accountant,
        rate: event_rate,
        factors: factors.as_deref().map_or(Factors::Constant(events), Factors::Each),
        joint: None,
        release: BeforeSteps::of(config)?.joint()?,
    };
    if config.method.threshold.wants_count_noise() {
        let total = match config.budget {
            Budget::Epsilon(target) => schedule.calibrate(target, calibrated_delta)?.multiplier,
            Budget::NoiseMultiplier(multiplier) | Budget::Equation6(multiplier) => multiplier,
            Budget::NotPrivate => return Err(AccountingError::NotPrivate.into()),
        };
        config.method.threshold = config.method.threshold.with_count_noise(total);
    }
    let count_noise = config.method.threshold.count_noise()?;
    schedule.joint = count_noise.map(CountNoise::multiplier);
    let (mut multiplier, mut sigma_grid) = noise(config, &schedule, calibrated_delta)?;
    let shaped;
    if let (AnyNoise::Clt(_), Budget::Epsilon(_)) = (noise_schedule, config.budget) {
        // The shape depends on the multiplier, and the multiplier on the shape: each shape is priced as it is.
        let mut each;
        let mut round = 0;
        loop {
            noise_schedule = config.method.noise_schedule.build(multiplier)?;
            each = per_event(self::factors(noise_schedule, &learning_rate, steps)).unwrap_or_default();
            let (next, grid) =
                noise(config, &Schedule { factors: Factors::Each(&each), ..schedule }, calibrated_delta)?;
            round += 1;
            let settled = (next / multiplier - 1.0).abs() < CLT_ACCURACY;
            (multiplier, sigma_grid) = (next, grid);
            if settled || round == CLT_ROUNDS {
                break;
            }
        }
        shaped = each;
        schedule.factors = Factors::Each(&shaped);
    }
    let plan = match sigma_grid {
        Some(sigma) => schedule.plan_on_grid(u64::from(sigma), config.grid_bits)?,
        None => schedule.plan(multiplier)?,
    };
    let terms = Terms {
        rate,
        event_rate,
        steps_per_event,
        correlated: None,
        truncation,
        steps,
        learning_rate,
        noise_schedule,
        multiplier,
        sigma_grid,
        count_noise,
    };
    Ok(Priced { terms, cut, plan: Some(plan), warnings, warnings_of_data })
}

/// The part of the price that rounding may take before it is worth a warning.
const LARGE_ROUNDING: f64 = 0.01;

/// Warnings about a run with correlated noise.
fn of_correlated(config: &TrainConfig, run: &CorrelatedRun) -> Result<Vec<String>, TrainError> {
    let correlation = config.noise_correlation;
    let mut warnings = Vec::new();
    let share = run.rounding_share()?;
    if share > LARGE_ROUNDING {
        warnings.push(format!(
            "`noise_correlation` {correlation}: rounding on the grid takes {:.1} % of the noise; raise `grid_bits` {}",
            100.0 * share,
            config.grid_bits
        ));
    }
    let loss = correlation::loss_share(run);
    if loss >= 1.0 {
        warnings.push(format!(
            "`noise_correlation` {correlation}: the sum over all steps has {loss:.2} times the noise of independent noise; use none"
        ));
    }
    if matches!(config.method.filter, FilterChoice::Disk { .. }) {
        warnings.push(format!(
            "`noise_correlation` {correlation}: the filter of `method` disk is derived for white noise, and is not tuned for this"
        ));
    }
    Ok(warnings)
}

/// The price of training; and the δ that it is of, less than the run's where draws are cut.
pub(crate) fn of_training(
    config: &TrainConfig,
    plan: &Plan,
    truncation: Option<Truncation>,
    cut: f64,
) -> Result<Truncated, TrainError> {
    let price = |delta| plan.epsilon(config.accountant, delta);
    Ok(match truncation {
        Some(truncation) => truncation.price(config.delta, cut, price)?,
        None => Truncated { price: price(config.delta)?, delta: config.delta },
    })
}

/// Sets the rates of `run` to those of draws from `left` of its training samples. Expected batch, noise and number of steps stay, and nothing
/// is claimed of such a run.
///
/// # Errors
///
/// There are fewer samples than the expected batch.
pub fn set_tuning_rate(run: &mut Run, left: u64) -> Result<(), TrainError> {
    let (config, samples) = (&run.config, run.data.train.len() as u64);
    let rate = tuning_rate(config, samples, left)?;
    let event_rate = match config.sampler {
        Sampler::Poisson => rate,
        Sampler::Shuffled | Sampler::MinSeparation => Rate::ONE,
        Sampler::CyclicPoisson => {
            let of_groups = u64::from(config.batch_size).saturating_mul(config.groups().into());
            Rate::of(of_groups, left).map_err(|_| TrainError::Run(TOO_FEW.into()))?
        }
    };
    (run.terms.rate, run.terms.event_rate) = (rate, event_rate);
    Ok(())
}

const TOO_FEW: &str = "the training split has too few samples to tune on: give one value for each key";

/// The rate of draws from `left` of `samples` samples.
pub(crate) fn tuning_rate(config: &TrainConfig, samples: u64, left: u64) -> Result<Rate, TrainError> {
    let declared = u128::from(config.dataset_size.unwrap_or(samples));
    let left = (declared * u128::from(left) / u128::from(samples.max(1))) as u64;
    Rate::of(u64::from(config.batch_size), left).map_err(|_| TrainError::Run(TOO_FEW.into()))
}

/// Holds δ against the number of samples counted, where fewer are declared. The messages do not give that number.
fn check_delta_of_counted(
    config: &TrainConfig,
    declared: u64,
    samples: u64,
    warnings: &mut Vec<String>,
) -> Result<(), TrainError> {
    let refuse = |rest: &str| {
        let problem = format!("below the number of samples, for which `delta` {} {rest}", config.delta);
        SettingError::new("dataset_size", declared, problem)
    };
    match judge_delta(config.delta, samples, config.allow_large_delta) {
        Err(_) => Err(refuse("is not below 1/N; lower `delta`, or pass `allow_large_delta`").into()),
        Ok(DeltaVerdict::Large { .. }) => {
            warnings.push(refuse("is above N^-1.1; lower `delta`").to_string());
            Ok(())
        }
        Ok(DeltaVerdict::Fine) => Ok(()),
    }
}

/// Rounds of calibrating the central limit theorem's schedule, at most; and how near the multiplier is to the one that shapes it.
const CLT_ROUNDS: u32 = 8;
const CLT_ACCURACY: f64 = 1e-3;

/// The factors of a noise schedule; none for constant noise.
fn factors(schedule: AnyNoise, learning_rate: &LearningRate, steps: u32) -> Option<Vec<f64>> {
    let each = || (0..steps).map(|step| schedule.factor(step, learning_rate)).collect();
    (schedule != AnyNoise::Schedule(NoiseSchedule::Constant)).then(each)
}

/// The multiplier that runs, and on the exact path its σ in grid units.
fn noise(config: &TrainConfig, schedule: &Schedule<'_>, delta: f64) -> Result<(f64, Option<u32>), TrainError> {
    let grid = Grid::new(config.grid_bits)?;
    let clip = config.method.threshold.clip();
    match config.noise {
        Noise::Discrete => {
            let mechanism = match config.budget {
                Budget::Epsilon(target) => {
                    let found = schedule.calibrate_on_grid(target, delta, config.grid_bits)?;
                    let sigma = u32::try_from(found.sigma).unwrap_or(u32::MAX);
                    DiscreteGaussian::<i64>::new(grid, sigma)
                }
                Budget::NoiseMultiplier(multiplier) | Budget::Equation6(multiplier) => {
                    DiscreteGaussian::with_multiplier(grid, multiplier)
                }
                Budget::NotPrivate => return Err(AccountingError::NotPrivate.into()),
            }?;
            let least = match schedule.factors {
                Factors::Constant(_) => 1.0,
                Factors::Each(factors) => factors.iter().copied().fold(f64::INFINITY, f64::min),
            };
            let least = mechanism.scaled(least);
            if least.check_noise().is_err() {
                let least = least.sigma();
                let problem = format!(
                    "sigma is {least} grid units where it is least; raise it until sigma is at least {SMALLEST_SIGMA}, and its \
                     square at least ten times 2^bits"
                );
                return Err(SettingError::new("grid_bits", config.grid_bits, problem).into());
            }
            mechanism.check_clip(clip)?;
            Ok((mechanism.multiplier(), Some(mechanism.sigma())))
        }
        Noise::Continuous => {
            let multiplier = match config.budget {
                Budget::Epsilon(target) => schedule.calibrate(target, delta)?.multiplier,
                Budget::NoiseMultiplier(multiplier) | Budget::Equation6(multiplier) => multiplier,
                Budget::NotPrivate => return Err(AccountingError::NotPrivate.into()),
            };
            let mechanism = ContinuousGaussian::new(multiplier)?;
            mechanism.check_clip(clip)?;
            Ok((mechanism.multiplier(), None))
        }
    }
}
