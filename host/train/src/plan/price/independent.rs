//! The privacy cost of steps with independent noise.

use super::rates::Rates;
use crate::plan::before_steps::BeforeSteps;
use crate::plan::equation6;
use crate::{Budget, NoiseKind, Terms, TrainConfig, TrainError};
use damper_accounting::{AccountingError, DrawSchedule, NoiseFactors, Plan, SMALLEST_SIGMA, Sampler, Truncation};
use damper_core::accounting::SampledGaussian;
use damper_core::grid::Grid;
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian};
use damper_core::private::Mechanism;
use damper_core::schedule::{AnyNoise, LearningRate, Noise as _, NoiseSchedule};
use damper_core::threshold::CountNoise;
use damper_onnx::SettingError;

/// Returns terms, plan, and the probability that a batch is truncated. Sets the noise that `config` leaves open.
pub(super) fn priced(
    config: &mut TrainConfig,
    rates: &Rates,
    samples: u64,
    learning_rate: LearningRate,
    warnings: &mut Vec<String>,
) -> Result<(Terms, Plan, f64), TrainError> {
    warnings.extend(settle_equation6(config, rates, &learning_rate)?);
    let noise_schedule = config.method.noise_schedule.build(match config.budget {
        Budget::NoiseMultiplier(multiplier) => multiplier,
        _ => 1.0,
    })?;
    let mut shape = Shape::new(noise_schedule, &learning_rate, rates);
    warnings.extend(of_sampler(config, rates));
    let (truncation, cut, delta) = truncated(config, rates, samples)?;
    let release = BeforeSteps::of(config)?.joint()?;
    let count_noise = settle_count_noise(config, &shape.schedule(config, rates, None, release), delta)?;
    let joint = count_noise.map(CountNoise::multiplier);
    let (mut multiplier, mut sigma_grid) = noise(config, &shape.schedule(config, rates, joint, release), delta)?;
    if let (AnyNoise::Clt(_), Budget::Epsilon(_)) = (noise_schedule, config.budget) {
        // The shape depends on the multiplier and the multiplier on the shape, so each round accounts the current shape
        // exactly.
        for _ in 0..CLT_ROUNDS {
            shape = Shape::new(config.method.noise_schedule.build(multiplier)?, &learning_rate, rates);
            let (next, grid) = noise(config, &shape.schedule(config, rates, joint, release), delta)?;
            let is_settled = (next / multiplier - 1.0).abs() < CLT_ACCURACY;
            (multiplier, sigma_grid) = (next, grid);
            if is_settled {
                break;
            }
        }
    }
    let schedule = shape.schedule(config, rates, joint, release);
    let plan = match sigma_grid {
        Some(sigma) => schedule.plan_on_grid(u64::from(sigma), config.grid_bits)?,
        None => schedule.plan(multiplier)?,
    };
    let terms = rates.terms(learning_rate, shape.noise);
    Ok((Terms { truncation, multiplier, sigma_grid, count_noise, ..terms }, plan, cut))
}

/// The noise of each event, relative to the multiplier.
struct Shape {
    noise: AnyNoise,
    /// A factor for each event, or `None` for constant noise.
    factors: Option<Vec<f64>>,
}

impl Shape {
    fn new(noise: AnyNoise, learning_rate: &LearningRate, rates: &Rates) -> Self {
        // If an event has several steps, such as an epoch, the least noise counts.
        let least = |steps: &[f64]| steps.iter().copied().fold(f64::INFINITY, f64::min);
        let factors = factors(noise, learning_rate, rates.steps);
        let factors = factors.map(|each| each.chunks(rates.steps_per_event as usize).map(least).collect());
        Self { noise, factors }
    }

    fn schedule(
        &self,
        config: &TrainConfig,
        rates: &Rates,
        joint: Option<f64>,
        release: Option<SampledGaussian>,
    ) -> DrawSchedule<'_> {
        DrawSchedule {
            accountant: config.accountant,
            rate: rates.event_rate,
            factors: self.factors.as_deref().map_or(NoiseFactors::Constant(rates.events()), NoiseFactors::Each),
            joint,
            release,
        }
    }
}

/// Sets the multiplier if the run uses ADP's equation 6. Returns a warning about it.
fn settle_equation6(
    config: &mut TrainConfig,
    rates: &Rates,
    learning_rate: &LearningRate,
) -> Result<Option<String>, TrainError> {
    let Budget::Equation6(epsilon) = config.budget else { return Ok(None) };
    let factors = factors(config.method.noise_schedule.build(1.0)?, learning_rate, rates.steps);
    let multiplier = equation6::multiplier(epsilon, rates.rate, rates.steps, config.delta, factors.as_deref())?;
    config.budget = Budget::NoiseMultiplier(multiplier);
    Ok(Some(format!(
        "`equation_6` {epsilon}: sets the noise to {multiplier:.6} clips; epsilon is the accountant's, and not {epsilon}"
    )))
}

/// Returns a warning about a sampler that does not draw each sample independently.
fn of_sampler(config: &TrainConfig, rates: &Rates) -> Option<String> {
    matches!(config.sampler, Sampler::Shuffled | Sampler::MinSeparation).then(|| {
        let (sampler, events) = (config.sampler.name(), rates.events());
        format!(
            "`sampler` {sampler}: nothing is gained by sampling, an epoch counts as one event at a rate of 1 ({events} of them)"
        )
    })
}

/// Returns the truncation of batches, the probability that any batch is truncated, and the δ that noise is calibrated
/// for.
fn truncated(config: &TrainConfig, rates: &Rates, samples: u64) -> Result<(Option<Truncation>, f64, f64), TrainError> {
    let Some(most) = config.truncate else { return Ok((None, 0.0, config.delta)) };
    let truncation = Truncation { samples, most };
    let cut = truncation.any(&[(SampledGaussian::new(rates.rate, 1.0)?, u64::from(rates.steps))]);
    // At the target ε, truncation takes its largest share of δ.
    let delta = match config.budget {
        Budget::Epsilon(target) => truncation.left(config.delta, target, cut)?,
        _ => config.delta,
    };
    Ok((Some(truncation), cut, delta))
}

/// Sets the noise of counts, if the clip learns from counts.
fn settle_count_noise(
    config: &mut TrainConfig,
    schedule: &DrawSchedule<'_>,
    delta: f64,
) -> Result<Option<CountNoise>, TrainError> {
    if config.method.threshold.wants_count_noise() {
        let total = match config.budget {
            Budget::Epsilon(target) => schedule.calibrate(target, delta)?.multiplier,
            Budget::NoiseMultiplier(multiplier) | Budget::Equation6(multiplier) => multiplier,
            Budget::NotPrivate => return Err(AccountingError::NotPrivate.into()),
        };
        config.method.threshold = config.method.threshold.with_count_noise(total);
    }
    Ok(config.method.threshold.count_noise()?)
}

/// Maximum number of calibration rounds for the CLT schedule, and the relative accuracy of its multiplier.
const CLT_ROUNDS: u32 = 8;
const CLT_ACCURACY: f64 = 1e-3;

/// Returns the factors of a noise schedule, or `None` for constant noise.
fn factors(schedule: AnyNoise, learning_rate: &LearningRate, steps: u32) -> Option<Vec<f64>> {
    let each = || (0..steps).map(|step| schedule.factor(step, learning_rate)).collect();
    (schedule != AnyNoise::Schedule(NoiseSchedule::Constant)).then(each)
}

/// Returns the multiplier that the run uses, and on the exact path its σ in grid units.
fn noise(config: &TrainConfig, schedule: &DrawSchedule<'_>, delta: f64) -> Result<(f64, Option<u32>), TrainError> {
    let grid = Grid::new(config.grid_bits)?;
    let clip = config.method.threshold.clip();
    match config.noise {
        NoiseKind::Discrete => {
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
                NoiseFactors::Constant(_) => 1.0,
                NoiseFactors::Each(factors) => factors.iter().copied().fold(f64::INFINITY, f64::min),
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
        NoiseKind::Continuous => {
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
