//! What was done to gradients, in words: each slot of the private step, its settings, and what one sample may add.

use crate::filter::Coefficients;
use crate::train::{
    Clipping, DecayChoice, FilterChoice, LearningRateChoice, NormStep, Outcome, PerSample, Rule, Run, ThresholdRule,
    forms,
};
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::NoiseSchedule;
use damper_core::threshold::Solver;
use serde::Serialize;

/// What was done to gradients.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MethodReport {
    /// As `--method` takes it.
    pub name: String,
    /// The filter, and where it took gradients.
    pub filter: String,
    /// Gradients of each sample at a step.
    pub gradients_per_sample: usize,
    /// The rule for the clip.
    pub threshold: String,
    /// The clip of the first step.
    pub clip_first: f32,
    /// The clip that a next step would have: a constant, or learned from released counts.
    pub clip_last: f32,
    /// The rule of clipping.
    pub clipping: &'static str,
    /// How far one sample moves what is released.
    pub sensitivity: String,
    /// The noise of each step beside the first's.
    pub noise_schedule: String,
    /// The learning rate over time.
    pub learning_rate: String,
}

impl MethodReport {
    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        let method = &run.config.method;
        Self {
            name: method.name.clone(),
            filter: filter(&method.filter),
            gradients_per_sample: method.filter.gradients_per_sample(),
            threshold: threshold(method.threshold.rule),
            clip_first: method.threshold.clip,
            clip_last: outcome.clip,
            clipping: match method.clipping {
                Clipping::Flat => "flat: the whole gradient, to the clip at most",
                Clipping::PerLayer => "per layer: each tensor to its equal share of the clip at most",
                Clipping::Automatic { .. } => "automatic: the whole gradient g becomes clip * g / (|g| + gamma)",
            },
            sensitivity: sensitivity(run),
            noise_schedule: noise_schedule(method.noise_schedule),
            learning_rate: learning_rate(method.learning_rate),
        }
    }
}

fn coefficients(filter: &Coefficients) -> String {
    if filter.a.is_empty() && filter.b == [1.0] { "none".into() } else { format!("IIR {}", filter.flags()) }
}

fn filter(choice: &FilterChoice) -> String {
    match choice {
        FilterChoice::None => "none".into(),
        FilterChoice::Iir(filter) => format!("{}, bias-corrected", coefficients(filter)),
        FilterChoice::PerSample(PerSample { iterates, beta, normalised, inner }) => format!(
            "each sample's gradients at the last {iterates} iterates, weighted by {beta}^age{}, mixed before the clip; then {}",
            if *normalised { " over their sum" } else { "" },
            coefficients(inner)
        ),
        FilterChoice::Kalman { gain, look_ahead } => {
            let gain = match gain {
                Gain::Constant(kappa) => format!("kappa = {kappa}"),
                Gain::Recursion { noise, drift, process } => {
                    format!("kappa by the recursion with variances {noise}, {drift}, {process}")
                }
            };
            match look_ahead {
                LookAhead::One => format!("Kalman, {gain}, one gradient at the point (1 - kappa)/kappa steps ahead"),
                LookAhead::Two { gamma } => {
                    format!("Kalman, {gain}, two gradients, one of them {gamma} steps ahead, mixed before the clip")
                }
            }
        }
    }
}

fn threshold(rule: ThresholdRule) -> String {
    match rule {
        ThresholdRule::Fixed => "fixed".into(),
        ThresholdRule::Percentile { fraction, count_noise, range } => format!(
            "percentile {fraction} of a released histogram of norms (20 bins, first range {range}, noise {} a \
             count), used from the next step",
            noise_of(count_noise)
        ),
        ThresholdRule::ExpectedError { solver, count_noise, range } => format!(
            "least expected error by a released histogram of norms (20 bins, first range {range}, noise {} a \
             count, {}), used from the next step",
            noise_of(count_noise),
            match solver {
                Solver::PaperGrid => "searched on the paper's grid",
                Solver::Exact => "solved exactly",
            }
        ),
        ThresholdRule::Quantile { fraction, rate, count_noise } => format!(
            "tracks quantile {fraction} at rate {rate} by a released count (noise {count_noise} samples), used from the \
             next step"
        ),
    }
}

fn noise_of(count_noise: Option<f64>) -> String {
    count_noise.map_or_else(String::new, |noise| noise.to_string())
}

fn sensitivity(run: &Run) -> String {
    let gradient = match run.config.method.clipping {
        Clipping::Flat | Clipping::Automatic { .. } => "one sample moves the sum of gradients by at most the clip",
        Clipping::PerLayer => {
            "one sample moves the sum of gradients by at most the root of the layers' squared clips, which is at most the clip"
        }
    };
    match run.count_noise {
        None => gradient.into(),
        Some(noise) => format!(
            "{gradient}, and one count by one; both are one Gaussian event: 1/sigma^2 = 1/{:.6}^2 + 1/{:.6}^2",
            run.multiplier,
            noise.multiplier()
        ),
    }
}

fn noise_schedule(schedule: NoiseSchedule) -> String {
    match schedule {
        NoiseSchedule::Constant => "constant".into(),
        NoiseSchedule::Matched { exponent } => {
            format!("(lr of the first step / lr)^{exponent}, declared beforehand and priced as a whole")
        }
        NoiseSchedule::Polynomial { growth, exponent } => {
            format!("(1 + {growth} t)^({exponent}/2), declared beforehand and priced as a whole")
        }
    }
}

fn learning_rate(choice: LearningRateChoice) -> String {
    let LearningRateChoice { lr, warmup, decay } = choice;
    let decay = match decay {
        DecayChoice::Constant => String::new(),
        DecayChoice::Step { epochs, factor } => format!(", times {factor} every {epochs} epochs"),
        DecayChoice::Cosine { floor } => format!(", half a cosine down to {floor} of it"),
        DecayChoice::Polynomial { offset, slope } => format!(" / sqrt({offset} + {slope} t)"),
        DecayChoice::RootLinear { floor } => format!(", linear in sqrt(t) down to {floor} of it"),
    };
    let warmup = if warmup > 0.0 { format!(", after a warm-up of {warmup} epochs") } else { String::new() };
    format!("{lr}{decay}{warmup}")
}

/// An optimizer and its settings.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
#[allow(missing_docs)] // The fields are those of `Rule`.
pub enum OptimizerReport {
    Sgd { momentum: f32, nesterov: bool, weight_decay: f32 },
    Adam { beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64 },
    AdamBc { beta1: f64, beta2: f64, floor: Option<f32>, weight_decay: f64 },
    Adagrad { epsilon: f32, weight_decay: f32 },
    Rmsprop { alpha: f64, epsilon: f32, weight_decay: f32 },
}

impl From<Rule> for OptimizerReport {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Sgd { momentum, nesterov, weight_decay } => Self::Sgd { momentum, nesterov, weight_decay },
            Rule::Adam { beta1, beta2, epsilon, weight_decay } => Self::Adam { beta1, beta2, epsilon, weight_decay },
            Rule::AdamBc { beta1, beta2, floor, weight_decay } => Self::AdamBc { beta1, beta2, floor, weight_decay },
            Rule::AdaGrad { epsilon, weight_decay } => Self::Adagrad { epsilon, weight_decay },
            Rule::RmsProp { alpha, epsilon, weight_decay } => Self::Rmsprop { alpha, epsilon, weight_decay },
        }
    }
}

/// AdaGrad-norm step sizes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[allow(missing_docs)] // The fields are those of `NormStep`.
pub struct NormStepReport {
    pub initial: f64,
    pub floor: f64,
    pub subtract_noise: bool,
}

impl From<NormStep> for NormStepReport {
    fn from(NormStep { initial, floor, subtract_noise }: NormStep) -> Self {
        Self { initial, floor, subtract_noise }
    }
}

/// A low-rank projection of the matrices.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GaLoreReport {
    /// Directions a tensor.
    pub rank: usize,
    /// Steps from one basis to the next.
    pub every: u32,
    /// What the projected step is multiplied by.
    pub scale: f32,
    /// The tensors that are projected.
    pub projected: Vec<String>,
    /// Coordinates that the optimizer sees, of all tensors.
    pub coordinates: usize,
    /// Where a basis comes from.
    pub basis: &'static str,
}

impl GaLoreReport {
    pub(super) fn new(run: &Run) -> Option<Self> {
        let settings = run.config.optimizer.galore?;
        let forms = forms(&run.grad);
        let named = run.grad.parameters.iter().zip(&forms);
        Some(Self {
            rank: settings.rank.get(),
            every: settings.every.get(),
            scale: settings.scale,
            projected: named.filter(|(_, form)| settings.projects(**form)).map(|(spec, _)| spec.name.clone()).collect(),
            coordinates: forms.iter().map(|form| settings.coordinates(*form)).sum(),
            basis: "leading singular directions of the released gradient of the step at which it is renewed",
        })
    }
}
