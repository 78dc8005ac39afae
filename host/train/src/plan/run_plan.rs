//! The plan that a budget is charged for, from a run's configuration and terms.

use crate::config::noise_correlation::NoiseCorrelation;
use crate::engine::sampler::steps_per_event;
use crate::engine::worker::ParamLayout;
use crate::plan::before_steps::BeforeSteps;
use crate::plan::check::check_settings;
use crate::plan::held_out::steps_between;
use crate::plan::price::{Priced, of_training, price, private_metrics};
use crate::plan::read::{InputFiles, network};
use crate::plan::terms::Price;
use crate::plan::tuning::tuning_rate;
use crate::{NoiseKind, PrivateMetrics, Run, Terms, TestMetrics, TrainConfig, TrainError};
use damper_accounting::{CorrelatedNoise, CorrelatedRun, Event, Recorded, RunParts, Sampler};
use damper_budget::RunPlan;
use damper_core::accounting::SampledGaussian;
use damper_core::grid::Grid;
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian};
use damper_core::private::Mechanism;
use damper_core::schedule::{Declared, Schedule};
use damper_data::held_out_rows;
use damper_onnx::SettingError;

impl Run {
    /// Returns the run's plan, which a budget is charged for.
    ///
    /// # Errors
    ///
    /// The noise or a rate is outside its range.
    pub fn run_plan(&self) -> Result<RunPlan, TrainError> {
        let Price { terms, private_metrics, .. } = &self.price;
        run_plan(&self.config, self.data.train.len() as u64, terms, private_metrics.as_ref())
    }
}

/// Returns the plan of a run on `samples` samples, with these noisy releases from held-out rows.
pub(crate) fn run_plan(
    config: &TrainConfig,
    samples: u64,
    terms: &Terms,
    held_out: Option<&PrivateMetrics>,
) -> Result<RunPlan, TrainError> {
    let steps_per_event = steps_per_event(config, samples, terms.steps);
    let held_out = held_out.map_or(&[][..], |metrics| metrics.plan.events());
    let BeforeSteps { normalize, non_finite } = BeforeSteps::of(config)?;
    let events = match (config.noise, terms.sigma_grid) {
        _ if config.is_not_private() => Ok(vec![]),
        _ if terms.correlated.is_some() => {
            Ok(terms.correlated.iter().map(CorrelatedRun::event).collect::<Result<_, _>>()?)
        }
        (NoiseKind::Discrete, Some(sigma)) => {
            let mechanism = DiscreteGaussian::<i64>::new(Grid::new(config.grid_bits)?, sigma)?;
            events(terms, steps_per_event, mechanism)
        }
        _ => events(terms, steps_per_event, ContinuousGaussian::new(terms.multiplier)?),
    }?;
    Ok(RunPlan {
        run: config.kind().to_string(),
        path: config.path().into(),
        steps: terms.steps,
        steps_per_event,
        evaluate_every: steps_between(config, terms.rate),
        events: recorded(
            config,
            terms,
            &events,
            held_out,
            [normalize, non_finite].map(|event| event.map(|event| event.multiplier())),
        ),
    })
}

/// Returns the record of a run with these draws, releases from held-out rows, and multipliers of [`BeforeSteps`].
pub(crate) fn recorded(
    config: &TrainConfig,
    terms: &Terms,
    draws: &[(SampledGaussian, u64)],
    held_out: &[(SampledGaussian, u64)],
    [normalize, non_finite]: [Option<f64>; 2],
) -> Recorded {
    let correlation = terms.correlated.as_ref().map(CorrelatedNoise::from);
    let (draws, held_out) = (Event::draws(config.sampler, draws), Event::releases(held_out));
    let parts = RunParts {
        normalize,
        non_finite,
        truncation: terms.truncation,
        correlation: correlation.as_ref(),
        draws: &draws,
        held_out: &held_out,
        search: None,
    };
    let recorded = Recorded::new(config.accountant, config.delta, &[]).with(&parts);
    recorded.with_kind(config.kind()).with_sampler(config.sampler, u64::from(terms.steps))
}

/// Returns the plan of a run on `samples` samples, before any data is read. Private metrics count as if the data had
/// held-out rows. With `tuning`, a part of the samples is held out for figures after the noise is chosen, so the rate
/// is higher.
///
/// # Errors
///
/// A setting is wrong.
pub fn plan(
    source: &InputFiles,
    mut config: TrainConfig,
    samples: u64,
    tuning: Option<f64>,
) -> Result<RunPlan, TrainError> {
    check_settings(source.data_options.test.as_ref(), &config)?;
    config.method.check(&config.optimizer)?;
    if tuning.is_some() && !matches!(config.sampler, Sampler::Poisson | Sampler::Shuffled) {
        let problem =
            "is priced for the samples of the last run, and tuning holds some out; give one value for each key";
        return Err(SettingError::new("sampler", config.sampler.name(), problem).into());
    }
    // The rounding error of correlated noise costs more with more parameters.
    let parameters = match config.noise_correlation {
        NoiseCorrelation::None => 0,
        _ => ParamLayout::new(&network(source, Some(config.backend))?.grad).dim(),
    };
    let Priced { terms, cut, plan, .. } = price(&mut config, samples, parameters)?;
    let metrics = match (config.test_metrics, &plan) {
        (TestMetrics::Private { .. }, Some(plan)) => {
            let training = of_training(&config, plan, terms.truncation, cut)?;
            private_metrics(&config, &source.derive.loss, &terms, training.price.epsilon)?
        }
        _ => None,
    };
    let left = tuning.map_or(samples, |part| samples - held_out_rows(samples, part));
    let rate = if left == samples { terms.rate } else { tuning_rate(&config, samples, left)? };
    let event_rate = if config.sampler == Sampler::Poisson { rate } else { terms.event_rate };
    run_plan(&config, left, &Terms { rate, event_rate, ..terms }, metrics.as_ref())
}

/// Returns each event and its number of consecutive repetitions, in the order of the steps.
fn events<M: Mechanism>(
    terms: &Terms,
    steps_per_event: u32,
    mechanism: M,
) -> Result<Vec<(SampledGaussian, u64)>, TrainError> {
    let schedule = Declared { learning_rate: terms.learning_rate, noise: terms.noise_schedule };
    let of_step = |step| {
        let event = SampledGaussian::new(terms.event_rate, mechanism.scaled(schedule.noise_factor(step)).multiplier())?;
        terms.count_noise.map_or(Ok(event), |counts| event.and(counts.multiplier()))
    };
    let mut events: Vec<(SampledGaussian, u64)> = Vec::new();
    let mut step = 0;
    while step < terms.steps {
        let end = terms.steps.min(step.saturating_add(steps_per_event));
        // All steps of an epoch count as the step with the least noise.
        let mut least: SampledGaussian = of_step(step)?;
        for step in step + 1..end {
            let event = of_step(step)?;
            if event.multiplier() < least.multiplier() {
                least = event;
            }
        }
        match events.last_mut() {
            Some((last, times)) if *last == least => *times += 1,
            _ => events.push((least, 1)),
        }
        step = end;
    }
    Ok(events)
}
