//! The method in words: each slot of the private step, its settings, and the bound on one sample's contribution.

use damper_core::described::Kind;
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_core::threshold::Solver;
use damper_train::filter::Coefficients;
use damper_train::lora::Adapted;
use damper_train::{
    Clipping, DecayChoice, FilterChoice, LearningRateChoice, NormStep, OptimizerChoice, Outcome, PerSample, Rule, Run,
    ThresholdChoice, ThresholdRule, forms, short,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The method.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MethodReport {
    /// The method's name, as the command line takes it.
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
    pub clipping: String,
    /// The largest effect of one sample on a release.
    pub sensitivity: String,
    /// The noise of each step beside the first's, `alpha_t`.
    pub noise_schedule: String,
    /// The learning rate over time.
    pub learning_rate: String,
}

impl MethodReport {
    /// The slots that differ from DP-SGD's, in a line; empty where none does.
    pub(super) fn differences(&self) -> String {
        let mut parts = Vec::new();
        if self.filter != "none" {
            parts.push(format!("filter {}", self.filter));
        }
        if self.threshold != "fixed" {
            parts.push(format!("clip {}", self.threshold));
        }
        if !self.clipping.starts_with("flat") {
            parts.push(format!("clipping {}", self.clipping));
        }
        if self.has_schedule() {
            parts.extend(self.noise_schedule.split("; ").next().map(|schedule| format!("noise times {schedule}")));
        }
        parts.join("; ")
    }

    /// Whether steps differ in their noise.
    pub(super) fn has_schedule(&self) -> bool {
        self.noise_schedule != "constant"
    }

    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        let method = &run.config.method;
        Self {
            name: method.name.clone(),
            filter: filter(&method.filter),
            gradients_per_sample: method.filter.gradients_per_sample(),
            threshold: threshold(method.threshold, method.count_non_finite),
            clip_first: method.threshold.clip,
            clip_last: outcome.clip,
            clipping: match method.clipping {
                Clipping::Flat => "flat: the whole gradient, to the clip at most".into(),
                Clipping::PerLayer => "per layer: each tensor to its equal share of the clip at most".into(),
                Clipping::Automatic { stability } => {
                    format!("automatic: the whole gradient g becomes clip * g / (|g| + gamma), gamma = {stability}")
                }
            },
            sensitivity: sensitivity(run),
            noise_schedule: noise_schedule(run.terms.noise_schedule),
            learning_rate: learning_rate(method.learning_rate),
        }
    }
}

fn is_none(filter: &Coefficients) -> bool {
    filter.a.is_empty() && filter.b == [1.0]
}

fn coefficients(filter: &Coefficients) -> String {
    if is_none(filter) { "none".into() } else { format!("IIR {}", filter.flags()) }
}

fn filter(choice: &FilterChoice) -> String {
    match choice {
        FilterChoice::None => "none".into(),
        FilterChoice::Iir(filter) if is_none(filter) => "none".into(),
        FilterChoice::Iir(filter) => format!("{}, bias-corrected", coefficients(filter)),
        FilterChoice::Uncorrected(filter) => format!("{}, without bias correction", coefficients(filter)),
        FilterChoice::AdaptiveFir { lags, memory, floor } => format!(
            "FIR over {lags} past gradients, taps by the autocorrelation of released gradients (memory {memory}, floor {floor})"
        ),
        FilterChoice::PerSample(choice) => per_sample(choice, "bias-corrected"),
        FilterChoice::PerSampleUncorrected(choice) => per_sample(choice, "without bias correction"),
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

fn per_sample(choice: &PerSample, correction: &str) -> String {
    let PerSample { iterates, beta, normalised, inner } = choice;
    format!(
        "each sample's gradients at the last {iterates} iterates, weighted by {beta}^age{}, mixed before the clip{}",
        if *normalised { " over their sum" } else { "" },
        if is_none(inner) { String::new() } else { format!("; then {}, {correction}", coefficients(inner)) }
    )
}

fn threshold(choice: ThresholdChoice, count_non_finite: bool) -> String {
    let (min, max) = choice.clip_bounds();
    let rule = match choice.rule {
        ThresholdRule::Fixed => return "fixed".into(),
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
            "tracks quantile {fraction} at rate {rate} by a released count (noise {count_noise}), used from the next \
             step"
        ),
    };
    let non_finite = if count_non_finite { ", samples that are not finite counted in the last bin" } else { "" };
    format!("{rule}{non_finite}, kept within {} to {}", short(min), short(max))
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
    let Some(noise) = run.terms.count_noise else { return gradient.into() };
    let (multiplier, alpha) = match run.terms.noise_schedule {
        AnyNoise::Schedule(NoiseSchedule::Constant) => (format!("{:.6}", run.terms.multiplier), ""),
        _ => (format!("(alpha_t * {:.6})", run.terms.multiplier), ", alpha_t the noise schedule"),
    };
    format!(
        "{gradient}, and one count by one; both are one Gaussian event: 1/sigma^2 = 1/{multiplier}^2 + 1/{:.6}^2{alpha}",
        noise.multiplier()
    )
}

fn noise_schedule(schedule: AnyNoise) -> String {
    let factor = match schedule {
        AnyNoise::Schedule(NoiseSchedule::Constant) => return "constant".into(),
        AnyNoise::Schedule(NoiseSchedule::Matched { exponent }) => format!("(lr of the first step / lr)^{exponent}"),
        AnyNoise::Schedule(NoiseSchedule::Polynomial { growth, exponent }) => {
            format!("(1 + {growth} t)^({exponent}/2)")
        }
        AnyNoise::Clt(clt) => format!(
            "z/{first:.6}, z^4 e^(-1/z^2) = {first:.6}^4 e^(-1/{first:.6}^2) (lr of the first step / lr)^2",
            first = clt.first()
        ),
    };
    format!("{factor}, declared beforehand and priced as a whole; noise_multiplier is the least over the steps")
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

/// An optimizer and its settings: name, then what [`OPTIMIZERS`](damper_core::optimizer::OPTIMIZERS) lists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OptimizerReport {
    /// Its name.
    pub name: String,
    /// Its settings.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

impl From<Rule> for OptimizerReport {
    fn from(rule: Rule) -> Self {
        let name = rule.description().names[0].0;
        let name = match name.strip_suffix("-floored").unwrap_or(name) {
            "adam" if rule.get("weight_decay") > Some(0.0) => "adamw",
            name => name,
        };
        let settings = rule.settings().map(|(setting, value)| {
            let is_computed = rule.get(setting.unless) == Some(1.0);
            let value = match setting.kind {
                _ if is_computed => Value::Null,
                // By way of text, which has as few digits as a 32-bit number needs.
                Kind::F32 => serde_json::from_str(&format!("{:?}", value as f32)).unwrap_or_default(),
                Kind::F64 => value.into(),
                Kind::Switch => (value != 0.0).into(),
                Kind::Words(words) => words[usize::from(value != 0.0)].into(),
            };
            (setting.name.to_owned(), value)
        });
        Self { name: name.to_owned(), settings: settings.collect() }
    }
}

/// AdaGrad-norm step sizes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields are those of `NormStep`.
pub struct NormStepReport {
    pub initial: f64,
    pub floor: f64,
    pub subtract_noise: bool,
    /// The weight at the first of so many steps, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<(f64, u32)>,
}

impl NormStepReport {
    pub(super) fn new(choice: OptimizerChoice) -> Option<Self> {
        let NormStep { initial, floor, subtract_noise } = choice.norm_step?;
        let weight = choice.norm_weight.map(|(weight, period)| (weight, period.get()));
        Some(Self { initial, floor, subtract_noise, weight })
    }
}

/// A low-rank projection of the matrices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// The source of a basis.
    pub basis: Cow<'static, str>,
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
            basis: "leading singular directions of the released gradient of the step at which it is renewed".into(),
        })
    }
}

/// Low-rank adapters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoraReport {
    /// Columns of each `A`.
    pub rank: usize,
    /// Alpha: the adapters' product is multiplied by alpha over rank.
    pub alpha: f32,
    /// The weights that have one.
    pub weights: Vec<String>,
    /// Whether `model.onnx` holds them merged into the weights, or as adapters.
    pub merged: bool,
}

impl LoraReport {
    pub(super) fn new(run: &Run) -> Option<Self> {
        let Adapted { adapters, keep, .. } = run.adapted.as_ref()?;
        Some(Self {
            rank: adapters.rank,
            alpha: adapters.alpha,
            weights: adapters.list.iter().map(|adapter| adapter.weight.clone()).collect(),
            merged: !keep,
        })
    }
}
