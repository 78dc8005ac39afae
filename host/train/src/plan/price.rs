//! The privacy cost of a run: rate, steps and noise, from the configuration and the number of samples alone.

mod correlated;
mod delta;
mod independent;
mod rates;
mod tuning;

pub use tuning::set_tuning_rate;
pub(super) use tuning::tuning_rate;

use crate::engine::not_private;
use crate::plan::before_steps::{self, BeforeSteps};
use crate::plan::held_out::{PrivateMetrics, private_metrics};
use crate::{Budget, Terms, TrainConfig, TrainError};
use damper_accounting::{Plan, Truncated, Truncation};
use damper_grad::Loss;
use rates::Rates;
use std::mem;

/// Terms and plan of the steps.
pub(super) struct Priced {
    pub(super) terms: Terms,
    /// The probability that a draw is cut.
    pub(super) cut: f64,
    /// None if the run is not private.
    pub(super) plan: Option<Plan>,
    warnings: Vec<String>,
    warnings_of_data: Vec<String>,
}

impl Priced {
    /// The warnings for all, and those that depend on rows, once.
    pub(super) fn take_warnings(&mut self) -> (Vec<String>, Vec<String>) {
        (mem::take(&mut self.warnings), mem::take(&mut self.warnings_of_data))
    }
}

/// Prices a run of so many parameters on `samples` samples, without their data. Sets the noise of counts and of releases before the steps
/// that `config` leaves open.
pub(super) fn price(config: &mut TrainConfig, samples: u64, parameters: usize) -> Result<Priced, TrainError> {
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
    let rates = Rates::new(config, samples)?;
    let (mut warnings, mut warnings_of_data) = (vec![], vec![]);
    if !config.is_not_private() {
        warnings.extend(delta::check(config, rates.declared, samples, &mut warnings_of_data)?);
    }
    let learning_rate = config.method.learning_rate.build(rates.rate, rates.steps)?;
    let (terms, plan, cut) = if config.is_not_private() {
        (rates.terms(learning_rate, config.method.noise_schedule.build(1.0)?), None, 0.0)
    } else if config.noise_correlation.is_none() {
        let (terms, plan, cut) = independent::priced(config, &rates, samples, learning_rate, &mut warnings)?;
        (terms, Some(plan), cut)
    } else {
        let (terms, plan) = correlated::priced(config, &rates, samples, parameters, learning_rate, &mut warnings)?;
        (terms, Some(plan), 0.0)
    };
    Ok(Priced { terms, cut, plan, warnings, warnings_of_data })
}

/// The privacy cost of a run, and of its private metrics.
pub(super) struct Price {
    pub(super) terms: Terms,
    pub(super) plan: Option<Plan>,
    pub(super) plan_delta: f64,
    pub(super) private_metrics: Option<PrivateMetrics>,
    pub(super) epsilon: f64,
    pub(super) order: Option<f64>,
}

impl Price {
    /// The cost of `priced`, and of metrics with this loss if the data `has_held_out` rows.
    pub(super) fn new(
        config: &TrainConfig,
        priced: Priced,
        loss: &Loss,
        has_held_out: bool,
    ) -> Result<Self, TrainError> {
        let Priced { terms, cut, plan, .. } = priced;
        let Truncated { price: training, delta: plan_delta } = match &plan {
            Some(plan) => of_training(config, plan, terms.truncation, cut)?,
            None => not_private::PRICE,
        };
        let private_metrics =
            if has_held_out { private_metrics(config, loss, &terms, training.epsilon)? } else { None };
        let of_held_out = private_metrics
            .as_ref()
            .map(|metrics| metrics.plan.epsilon(config.accountant, config.delta))
            .transpose()?;
        let whole = of_held_out.filter(|held_out| held_out.epsilon > training.epsilon).unwrap_or(training);
        Ok(Self { terms, plan, plan_delta, private_metrics, epsilon: whole.epsilon, order: whole.order })
    }
}

/// The price of training; and the δ that it is of, less than the run's where draws are cut.
pub(super) fn of_training(
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
