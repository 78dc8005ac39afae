//! Description of the method: each slot of the private step, its settings, and the bound on one sample's contribution.

use super::notes;
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_design::Coefficients;
use damper_edit::lora::Adapted;
use damper_train::{
    AdamDenominator, Clipping, DecayChoice, FilterChoice, LearningRateChoice, NormStep, OptimizerChoice, OptimizerRule,
    Outcome, Run, SecondMoment, SolverChoice, ThresholdChoice, forms, short,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Description of the method.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MethodReport {
    /// Name of the method on the command line.
    pub name: String,
    /// Filter, and its evaluation points.
    pub filter: String,
    /// Gradients of each sample at a step.
    pub gradients_per_sample: usize,
    /// Rule for the clipping threshold.
    pub threshold: String,
    /// Clipping threshold of the first step.
    pub clip_first: f32,
    /// Clipping threshold that a next step would have: a constant, or adapted from released counts.
    pub clip_last: f32,
    /// Clipping rule.
    pub clipping: String,
    /// Largest effect of one sample on a release.
    pub sensitivity: String,
    /// Noise of each step relative to the first step's, `alpha_t`.
    pub noise_schedule: String,
    /// Learning rate over time.
    pub learning_rate: String,
}

impl MethodReport {
    /// Returns the slots that differ from DP-SGD's, in a line. Empty if none does.
    pub(crate) fn differences(&self) -> String {
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
    pub(crate) fn has_schedule(&self) -> bool {
        self.noise_schedule != "constant"
    }

    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        let method = &run.config.method;
        Self {
            name: method.name.clone(),
            filter: filter(&method.filter),
            gradients_per_sample: method.filter.gradients_per_sample(),
            threshold: threshold(method.threshold, method.count_non_finite),
            clip_first: method.threshold.clip(),
            clip_last: outcome.clip,
            clipping: clipping(method.clipping),
            sensitivity: sensitivity(run),
            noise_schedule: noise_schedule(run),
            learning_rate: learning_rate(&method.learning_rate),
        }
    }
}

fn filter(filter: &FilterChoice) -> String {
    let recursive = |before: &str, taps: &Coefficients, bias_correction: bool| {
        let correction = if bias_correction { "bias-corrected" } else { "without bias correction" };
        if taps.is_identity() { String::new() } else { format!("{before}IIR {}, {correction}", taps.flags()) }
    };
    let momentum = |iterates: usize, beta: f64, over: &str, then: String| {
        format!(
            "each sample's gradients at the last {iterates} iterates, weighted by {beta}^age{over}, mixed before the clip{then}"
        )
    };
    match *filter {
        FilterChoice::None => "none".into(),
        FilterChoice::Doppler { ref taps, .. } if taps.is_identity() => "none".into(),
        FilterChoice::Doppler { ref taps, bias_correction } => recursive("", taps, bias_correction),
        FilterChoice::AdaptiveFir { lags, memory, floor } => format!(
            "FIR over {lags} past gradients, taps by the autocorrelation of released gradients (memory {memory}, floor {floor})"
        ),
        FilterChoice::DpPmlf { iterates, beta, ref taps, bias_correction } => {
            momentum(iterates, beta, " over their sum", recursive("; then ", taps, bias_correction))
        }
        FilterChoice::InnerOuter { iterates, beta, ref taps, bias_correction } => {
            momentum(iterates, beta, "", recursive("; then ", taps, bias_correction))
        }
        FilterChoice::Disk { kappa, gain_recursion, gamma } => {
            let gain = match gain_recursion {
                None => format!("kappa = {kappa}"),
                Some([noise, drift, process]) => {
                    format!("kappa by the recursion with variances {noise}, {drift}, {process}")
                }
            };
            let points = match gamma {
                None => "one gradient at the point (1 - kappa)/kappa steps ahead".to_owned(),
                Some(gamma) => format!("two gradients, one of them {gamma} steps ahead, mixed before the clip"),
            };
            format!("Kalman, {gain}, {points}")
        }
    }
}

fn clipping(clipping: Clipping) -> String {
    match clipping {
        Clipping::Flat => "flat: the whole gradient, to the clip at most".into(),
        Clipping::PerLayer => "per layer: each tensor to its equal share of the clip at most".into(),
        Clipping::Automatic { gamma } => {
            format!("automatic: the whole gradient g becomes clip * g / (|g| + gamma), gamma = {gamma}")
        }
    }
}

fn threshold(choice: ThresholdChoice, count_non_finite: bool) -> String {
    let noise = |count_noise: Option<f64>| count_noise.map_or_else(String::new, |noise| noise.to_string());
    let rule = match choice {
        ThresholdChoice::Fixed { .. } => "fixed".into(),
        ThresholdChoice::Percentile { fraction, count_noise, range, .. } => format!(
            "percentile {fraction} of a released histogram of norms (20 bins, first range {range}, noise {} a count), used from the \
             next step",
            noise(count_noise)
        ),
        ThresholdChoice::ExpectedError { solver, count_noise, range, .. } => {
            let solver = match solver {
                SolverChoice::PaperGrid => "searched on the paper's grid",
                SolverChoice::Exact => "solved exactly",
            };
            format!(
                "least expected error by a released histogram of norms (20 bins, first range {range}, noise {} a count, {solver}), \
                 used from the next step",
                noise(count_noise)
            )
        }
        ThresholdChoice::Quantile { fraction, rate, count_noise, .. } => format!(
            "tracks quantile {fraction} at rate {rate} by a released count (noise {}), used from the next step",
            noise(count_noise)
        ),
    };
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
    let gradient = gradient.to_owned() + &notes::over_the_run(run.config.sampler, run.price.terms.correlated.as_ref());
    let Some(noise) = run.price.terms.count_noise else { return gradient };
    let (multiplier, alpha) = match run.price.terms.noise_schedule {
        AnyNoise::Schedule(NoiseSchedule::Constant) => (format!("{:.6}", run.price.terms.multiplier), ""),
        _ => (format!("(alpha_t * {:.6})", run.price.terms.multiplier), ", alpha_t the noise schedule"),
    };
    format!(
        "{gradient}, and one count by one; both are one Gaussian event: 1/sigma^2 = 1/{multiplier}^2 + 1/{:.6}^2{alpha}",
        noise.multiplier()
    )
}

fn noise_schedule(run: &Run) -> String {
    let factor = match run.price.terms.noise_schedule {
        AnyNoise::Schedule(NoiseSchedule::Constant) => return "constant".into(),
        AnyNoise::Schedule(NoiseSchedule::Matched { exponent }) => {
            format!("(lr of the first step / lr)^{exponent}")
        }
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

fn learning_rate(LearningRateChoice { lr, warmup, decay }: &LearningRateChoice) -> String {
    let warmup = if *warmup > 0.0 { format!(", after a warm-up of {warmup} epochs") } else { String::new() };
    let decay = match decay {
        DecayChoice::Constant => String::new(),
        DecayChoice::Step { epochs, factor } => format!(", times {factor} every {epochs} epochs"),
        DecayChoice::Cosine { floor } => format!(", half a cosine down to {floor} of it"),
        DecayChoice::Polynomial { offset, slope } => format!(" / sqrt({offset} + {slope} t)"),
        DecayChoice::RootLinear { floor } => format!(", linear in sqrt(t) down to {floor} of it"),
    };
    format!("{lr}{decay}{warmup}")
}

/// An optimizer and its settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OptimizerReport {
    /// Name of the optimizer.
    pub name: String,
    /// Settings of the optimizer.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

impl From<OptimizerRule> for OptimizerReport {
    /// Returns the settings of the choice, with each of Adam's betas separate, and with the effect of a choice as text.
    fn from(rule: OptimizerRule) -> Self {
        // Through text, which has only as many digits as a 32-bit number needs.
        let text = serde_json::to_string(&rule).unwrap_or_default();
        let mut settings: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let name = settings.shift_remove("name");
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::Array(betas)) = settings.shift_remove("betas") {
            let betas = ["beta1", "beta2"].map(str::to_owned).into_iter().zip(betas);
            settings = betas.chain(settings).collect();
        }
        match rule {
            OptimizerRule::Adam { weight_decay, second_moment, denominator, .. } => {
                let of = match second_moment {
                    SecondMoment::Released => "of the released gradient",
                    SecondMoment::Filtered => "of the filtered gradient",
                };
                let floored = match denominator {
                    AdamDenominator::Added => "",
                    AdamDenominator::Floored => "; the denominator is its root, or epsilon where that is larger",
                };
                settings.shift_remove("denominator");
                settings.insert("second_moment".into(), format!("{of}{floored}").into());
                Self { name: if weight_decay > 0.0 { "adamw".into() } else { name }, settings }
            }
            OptimizerRule::AdamBc { floor, .. } => {
                let decay = settings.shift_remove("weight_decay");
                let note = if floor.is_some() { "a constant" } else { "by the noise" };
                settings.insert("floor_note".into(), note.into());
                settings.extend(decay.map(|decay| ("weight_decay".to_owned(), decay)));
                Self { name, settings }
            }
            _ => Self { name, settings },
        }
    }
}

/// AdaGrad-norm step sizes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields are those of `NormStep`.
pub struct NormStepReport {
    pub initial: f64,
    pub floor: f64,
    pub subtract_noise: bool,
    /// ADP's weight of the first step of each period, and the length of the period in steps, if set.
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

/// Low-rank projection of the matrices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GaLoreReport {
    /// Directions for each tensor.
    pub rank: usize,
    /// Steps from one basis to the next.
    pub every: u32,
    /// Factor on the projected step.
    pub scale: f32,
    /// Projected tensors.
    pub projected: Vec<String>,
    /// Coordinates that the optimizer sees, over all tensors.
    pub coordinates: usize,
    /// Source of a basis.
    pub basis: Cow<'static, str>,
}

impl GaLoreReport {
    pub(super) fn new(run: &Run) -> Option<Self> {
        let settings = run.config.optimizer.galore?;
        let forms = forms(&run.model.grad);
        let named = run.model.grad.parameters.iter().zip(&forms);
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
    /// Number of columns of each `A`.
    pub rank: usize,
    /// Alpha: the adapters' product is multiplied by alpha over rank.
    pub alpha: f32,
    /// Weights with an adapter.
    pub weights: Vec<String>,
    /// True if `model.onnx` has the adapters merged into the weights. False if they are separate.
    pub merged: bool,
}

impl LoraReport {
    pub(super) fn new(run: &Run) -> Option<Self> {
        let Adapted { adapters, keep, .. } = run.model.adapted.as_ref()?;
        Some(Self {
            rank: adapters.rank,
            alpha: adapters.alpha,
            weights: adapters.list.iter().map(|adapter| adapter.weight.clone()).collect(),
            merged: !keep,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_train::ByName;
    use toml::toml;

    // The same output as an earlier version, which named each field explicitly.
    #[test]
    fn optimizers_have_their_settings() {
        let named = |name| OptimizerRule::of_name(name).unwrap();
        let floored = toml! { second_moment = "filtered"
        denominator = "floored" };
        for (rule, expected) in [
            (named("sgd"), r#"{"name":"sgd","momentum":0.0,"nesterov":false,"weight_decay":0.0}"#),
            (
                OptimizerRule::with("momentum", toml! { weight_decay = 0.1 }).unwrap(),
                r#"{"name":"sgd","momentum":0.9,"nesterov":false,"weight_decay":0.1}"#,
            ),
            (
                OptimizerRule::with("adamw", toml! { epsilon = 1e-6 }).unwrap(),
                r#"{"name":"adamw","beta1":0.9,"beta2":0.999,"epsilon":1e-6,"weight_decay":0.01,"second_moment":"of the released gradient"}"#,
            ),
            (
                OptimizerRule::with("adam", floored).unwrap(),
                r#"{"name":"adam","beta1":0.9,"beta2":0.999,"epsilon":1e-8,"weight_decay":0.0,"second_moment":"of the filtered gradient; the denominator is its root, or epsilon where that is larger"}"#,
            ),
            (
                named("adam-bc"),
                r#"{"name":"adam-bc","beta1":0.9,"beta2":0.999,"floor":null,"floor_note":"by the noise","weight_decay":0.0}"#,
            ),
            (
                OptimizerRule::with("adam-bc", toml! { floor = 1e-7 }).unwrap(),
                r#"{"name":"adam-bc","beta1":0.9,"beta2":0.999,"floor":1e-7,"floor_note":"a constant","weight_decay":0.0}"#,
            ),
            (named("adagrad"), r#"{"name":"adagrad","epsilon":1e-10,"weight_decay":0.0}"#),
            (named("rmsprop"), r#"{"name":"rmsprop","alpha":0.99,"epsilon":1e-8,"weight_decay":0.0}"#),
        ] {
            let found = serde_json::to_value(OptimizerReport::from(rule)).unwrap();
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(found.to_string(), expected.to_string());
        }
    }
}
