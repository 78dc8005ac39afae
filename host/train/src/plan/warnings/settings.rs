//! Warnings about settings, from public figures alone.

use crate::engine::galore::forms;
use crate::engine::not_private;
use crate::plan::terms::Price;
use crate::{TestMetrics, TrainConfig};
use damper_accounting::{RunKind, upward};
use damper_data::{DataOptions, TestSource};
use damper_grad::GradGraph;

/// Learning rates above this are almost surely a mistake.
const LARGE_LR: f64 = 1e3;

/// An ε above this is a very weak guarantee.
const WEAK_EPSILON: f64 = 20.0;

/// Warns that a seed removes privacy.
pub(in crate::plan) fn simulation(config: &TrainConfig) -> Option<String> {
    (config.kind() == RunKind::Simulation)
        .then(|| "`seed` makes this run a simulation: its noise can be recomputed, so nothing of it is private".into())
}

/// Returns warnings about the method and the parameters that it trains.
pub(in crate::plan) fn of_method(config: &TrainConfig, grad: &GradGraph) -> impl Iterator<Item = String> {
    [large_lr(config), unreached(grad), long_warmup(config), galore_without_tensor(config, grad)].into_iter().flatten()
}

fn large_lr(config: &TrainConfig) -> Option<String> {
    let lr = config.method.learning_rate.lr;
    (lr > LARGE_LR)
        .then(|| format!("`lr` {lr:e}: beyond sense, so the parameters are likely to become infinite; use 0.001 to 10"))
}

fn unreached(grad: &GradGraph) -> Option<String> {
    let names = grad.unreached.join(", ");
    (!grad.unreached.is_empty()).then(|| format!("{names}: not trained, for no gradient reaches it from the loss"))
}

fn long_warmup(config: &TrainConfig) -> Option<String> {
    let (warmup, epochs) = (config.method.learning_rate.warmup, config.epochs);
    (warmup > epochs).then(|| {
        format!("`warmup` {warmup}: longer than the run, whose learning rate never rises to `lr` (`epochs` {epochs})")
    })
}

fn galore_without_tensor(config: &TrainConfig, grad: &GradGraph) -> Option<String> {
    let galore = config.optimizer.galore?;
    (!forms(grad).into_iter().any(|form| galore.projects(form))).then(|| {
        format!("`galore` {}: no tensor has more rows and more columns than that, so nothing is projected", galore.rank)
    })
}

/// Returns a warning about the privacy cost.
pub(in crate::plan) fn of_price(price: &Price) -> Option<String> {
    if price.plan.is_none() {
        return Some(not_private::WARNING.into());
    }
    (price.epsilon > WEAK_EPSILON).then(|| {
        format!(
            "epsilon {}: hardly a guarantee; 10 and less are usual: raise the noise, or train for fewer steps",
            upward(price.epsilon)
        )
    })
}

/// Returns warnings about held-out rows.
pub(in crate::plan) fn of_held_out(config: &TrainConfig, options: &DataOptions) -> impl Iterator<Item = String> {
    [exact_metrics(config, options), stratified(options)].into_iter().flatten()
}

fn exact_metrics(config: &TrainConfig, options: &DataOptions) -> Option<String> {
    let Some(TestSource::Fraction(fraction)) = options.test else { return None };
    (config.test_metrics == TestMetrics::Exact).then(|| {
        format!(
            "`test` {fraction}: the held-out rows come out of the training file, and their exact metrics are not covered by epsilon; \
             use `test_metrics` private, or none, if these rows are private"
        )
    })
}

fn stratified(options: &DataOptions) -> Option<String> {
    options.stratify.then(|| {
        "`stratify`: classes decide which rows are held out, so the class of every row is taken to be public; epsilon protects the \
         rest of a row"
            .into()
    })
}
