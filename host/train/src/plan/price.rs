//! The privacy cost of a run. Rate, steps and noise follow from the configuration and the number of samples alone.

mod correlated;
mod delta;
mod independent;
mod rates;

use crate::engine::not_private;
use crate::plan::before_steps::{self, BeforeSteps};
use crate::plan::held_out::{PrivateMetrics, steps_between};
use crate::plan::terms::Price;
use crate::plan::warnings::Warnings;
use crate::{Budget, Terms, TestMetrics, TrainConfig, TrainError};
use damper_accounting::{Plan, Truncation, TruncationBound};
use damper_budget::evaluations;
use damper_grad::Loss;
use rates::Rates;

/// Terms and plan of the steps.
pub(super) struct Priced {
    pub(super) terms: Terms,
    /// The probability that a batch is truncated.
    pub(super) cut: f64,
    /// `None` if the run is not private.
    pub(super) plan: Option<Plan>,
    pub(super) warnings: Warnings,
}

/// Computes the privacy cost of a run with this many parameters on `samples` samples, without their data. Sets the
/// noise of counts and of releases before the steps, if `config` leaves it open.
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

/// Computes the privacy cost of the steps, with the releases before them whose noise is known.
fn price_steps(config: &mut TrainConfig, samples: u64, parameters: usize) -> Result<Priced, TrainError> {
    let rates = Rates::new(config, samples)?;
    let mut warnings = Warnings::default();
    if !config.is_not_private() {
        warnings.public.extend(delta::check(config, rates.declared, samples, &mut warnings.of_data)?);
    }
    let learning_rate = config.method.learning_rate.build(rates.rate, rates.steps)?;
    let (terms, plan, cut) = if config.is_not_private() {
        (rates.terms(learning_rate, config.method.noise_schedule.build(1.0)?), None, 0.0)
    } else if config.noise_correlation.is_none() {
        let (terms, plan, cut) = independent::priced(config, &rates, samples, learning_rate, &mut warnings.public)?;
        (terms, Some(plan), cut)
    } else {
        let (terms, plan) =
            correlated::priced(config, &rates, samples, parameters, learning_rate, &mut warnings.public)?;
        (terms, Some(plan), 0.0)
    };
    Ok(Priced { terms, cut, plan, warnings })
}

impl Price {
    /// Returns the cost of `priced`. If the data `has_held_out` rows, it includes metrics with this loss.
    pub(super) fn new(
        config: &TrainConfig,
        priced: Priced,
        loss: &Loss,
        has_held_out: bool,
    ) -> Result<Self, TrainError> {
        let Priced { terms, cut, plan, .. } = priced;
        let TruncationBound { price: training, delta: plan_delta } = match &plan {
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

/// Returns the privacy cost of training, and the δ it holds for, which is below the run's δ if batches are truncated.
pub(super) fn of_training(
    config: &TrainConfig,
    plan: &Plan,
    truncation: Option<Truncation>,
    cut: f64,
) -> Result<TruncationBound, TrainError> {
    let price = |delta| plan.epsilon(config.accountant, delta);
    Ok(match truncation {
        Some(truncation) => truncation.price(config.delta, cut, price)?,
        None => TruncationBound { price: price(config.delta)?, delta: config.delta },
    })
}

/// Returns the noise of private metrics, if requested. It does not depend on the held-out rows.
pub(super) fn private_metrics(
    config: &TrainConfig,
    loss: &Loss,
    terms: &Terms,
    of_training: f64,
) -> Result<Option<PrivateMetrics>, TrainError> {
    let TestMetrics::Private { loss_bound } = config.test_metrics else { return Ok(None) };
    let target = match config.budget {
        Budget::Epsilon(target) => target,
        Budget::NoiseMultiplier(_) | Budget::Equation6(_) | Budget::NotPrivate => of_training,
    };
    let with_accuracy = loss.is_of_classes() || *loss == Loss::BceWithLogits;
    // A loss that the model computes may have any sign.
    let is_nonnegative = !matches!(loss, Loss::Output(_));
    let releases = evaluations(terms.steps, steps_between(config, terms.rate));
    let target = (target, config.delta);
    Ok(Some(PrivateMetrics::new(config.accountant, target, releases, loss_bound, (with_accuracy, is_nonnegative))?))
}
