//! The method in words: each slot of the private step, its settings, and the bound on one sample's contribution.

use super::notes;
use damper_core::described::{Kind, UNSET};
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_edit::lora::Adapted;
use damper_train::{
    Choice, LearningRateChoice, NormStep, OptimizerChoice, Outcome, Rule, Run, Slot, ThresholdChoice, forms, short,
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

    /// Returns true if steps differ in their noise.
    pub(super) fn has_schedule(&self) -> bool {
        self.noise_schedule != "constant"
    }

    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        let method = &run.config.method;
        Self {
            name: method.name.clone(),
            filter: Some(words(&method.filter)).filter(|words| !words.is_empty()).unwrap_or_else(|| "none".into()),
            gradients_per_sample: method.filter.gradients_per_sample(),
            threshold: threshold(&method.threshold, method.count_non_finite),
            clip_first: method.threshold.clip(),
            clip_last: outcome.clip,
            clipping: words(&method.clipping),
            sensitivity: sensitivity(run),
            noise_schedule: noise_schedule(run),
            learning_rate: learning_rate(&method.learning_rate),
        }
    }
}

/// A method in words.
fn words<S: Slot>(choice: &Choice<S>) -> String {
    filled(choice.description().words, choice)
}

/// Words with the method's settings in the place of their names in braces.
fn filled<S: Slot>(words: &str, choice: &Choice<S>) -> String {
    let (mut text, mut rest) = (String::new(), words);
    while let Some(((before, name), after)) =
        rest.split_once('}').and_then(|(of, after)| Some((of.split_once('{')?, after)))
    {
        text += before;
        let setting = choice.settings().find(|(setting, _)| setting.name == name);
        text += &setting.map_or_else(String::new, |(setting, value)| match setting.kind {
            _ if value == UNSET => String::new(),
            Kind::F32 => (value as f32).to_string(),
            Kind::F64 | Kind::Whole | Kind::Switch => value.to_string(),
            Kind::Words(words) | Kind::Named(_, words) => filled(words[usize::from(value != 0.0)], choice),
            Kind::Taps(words) => {
                let taps = choice.taps().filter(|taps| !taps.is_identity());
                taps.map_or_else(String::new, |taps| words.replace("{}", &taps.flags()))
            }
        });
        rest = after;
    }
    text + rest
}

fn threshold(choice: &ThresholdChoice, count_non_finite: bool) -> String {
    let rule = words(choice);
    let Some((min, max)) = choice.clip_bounds() else { return rule };
    let non_finite = if count_non_finite { ", samples that are not finite counted in the last bin" } else { "" };
    format!("{rule}{non_finite}, kept within {} to {}", short(min), short(max))
}

fn sensitivity(run: &Run) -> String {
    let gradient = if run.config.method.clipping.is_per_layer() {
        "one sample moves the sum of gradients of a step by at most the root of the layers' squared clips, which is at most the clip"
    } else {
        "one sample moves the sum of gradients of a step by at most the clip"
    };
    let gradient = gradient.to_owned() + &notes::over_the_run(run.config.sampler, run.terms.correlated.as_ref());
    let Some(noise) = run.terms.count_noise else { return gradient };
    let (multiplier, alpha) = match run.terms.noise_schedule {
        AnyNoise::Schedule(NoiseSchedule::Constant) => (format!("{:.6}", run.terms.multiplier), ""),
        _ => (format!("(alpha_t * {:.6})", run.terms.multiplier), ", alpha_t the noise schedule"),
    };
    format!(
        "{gradient}, and one count by one; both are one Gaussian event: 1/sigma^2 = 1/{multiplier}^2 + 1/{:.6}^2{alpha}",
        noise.multiplier()
    )
}

fn noise_schedule(run: &Run) -> String {
    let factor = match run.terms.noise_schedule {
        AnyNoise::Schedule(_) => words(&run.config.method.noise_schedule),
        AnyNoise::Clt(clt) => format!(
            "z/{first:.6}, z^4 e^(-1/z^2) = {first:.6}^4 e^(-1/{first:.6}^2) (lr of the first step / lr)^2",
            first = clt.first()
        ),
    };
    if factor.is_empty() {
        return "constant".into();
    }
    format!("{factor}, declared beforehand and priced as a whole; noise_multiplier is the least over the steps")
}

fn learning_rate(LearningRateChoice { lr, warmup, decay }: &LearningRateChoice) -> String {
    let warmup = if *warmup > 0.0 { format!(", after a warm-up of {warmup} epochs") } else { String::new() };
    format!("{lr}{}{warmup}", words(decay))
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
            let value = match setting.kind {
                _ if rule.is_idle(setting) => Value::Null,
                // By way of text, which has as few digits as a 32-bit number needs.
                Kind::F32 => serde_json::from_str(&format!("{:?}", value as f32)).unwrap_or_default(),
                Kind::F64 | Kind::Whole | Kind::Taps(_) => value.into(),
                Kind::Switch => (value != 0.0).into(),
                Kind::Words(words) | Kind::Named(_, words) => words[usize::from(value != 0.0)].into(),
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
    /// Factor on the projected step.
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
    /// True if `model.onnx` holds them merged into the weights; false if as adapters.
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
