//! The private method of `damper train`: a name that sets everything, and flags that change parts.
//!
//! A method is a choice for each slot of the private step: filter, threshold, clipping, noise schedule. Its name fills
//! the slots as in its paper. A flag changes one slot, so all methods compose. Settings that break a proof, or would
//! silently do nothing, are errors with a reason.

use crate::cli::Failure;
use crate::cli::args::settings::{SettingArgs, help, name_among, name_of, names};
use crate::cli::args::text::{FromText, Text};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use damper_design::{Coefficients, ORDER};
use damper_train::{Clipping, DecayChoice, FilterChoice, LearningRateChoice, Method, NoiseChoice, ThresholdChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::str::FromStr;
use toml::{Table, Value};

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Method")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct MethodArgs {
    /// The private method. The flags below change parts of it [default: dp-sgd]
    #[arg(long, value_name = "NAME", value_parser = methods())]
    #[serde(deserialize_with = "method_name")]
    method: Option<String>,
    /// Filter of released gradients: none, a name from `damper filter --list`, or coefficients A1,A2;B0,B1 [default:
    /// doppler, dp-pmlf: momentum, others: none]
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// doppler: instead of --filter, a filter over LAGS past gradients with taps that follow their autocorrelation.
    /// MEMORY is the decay of its averages from step to step, FLOOR the least squared norm [default: MEMORY 0.9, FLOOR
    /// 1e-3]
    #[arg(long, value_name = "LAGS[,MEMORY[,FLOOR]]")]
    adaptive_fir: Option<Text<Lags>>,
    /// doppler, dp-pmlf, --filter: the filter's output as it is, not over its step response
    #[arg(long)]
    no_bias_correction: bool,
    #[command(flatten)]
    #[serde(flatten)]
    filter_settings: SettingArgs<FilterChoice>,
    /// Clipping threshold of each step. All rules except `fixed` learn it from released counts [default: by the method]
    #[arg(long, alias = "threshold", value_name = "RULE", value_parser = names::<ThresholdChoice>())]
    #[serde(deserialize_with = "name_of::<_, ThresholdChoice>")]
    clip_rule: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    threshold_settings: SettingArgs<ThresholdChoice>,
    /// percentile, expected-error: counts a sample whose gradient is not finite in the histogram's last bin, not
    /// nowhere
    #[arg(long)]
    count_non_finite: bool,
    /// Bound on one sample. `flat`: all parameters together to the clip at most. `per-layer`: each tensor on its own.
    /// `automatic`: normalised to the clip (AUTO-S) [default: flat]
    #[arg(long, value_name = "RULE", value_parser = names::<Clipping>())]
    #[serde(deserialize_with = "name_of::<_, Clipping>")]
    clipping: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    clip_settings: SettingArgs<Clipping>,
    /// Noise of each step: constant, or matched:P, growing as the learning rate falls, to the power P from 0 to 4. Or
    /// polynomial:G,P, which is (1 + G t)^(P/2). Or clt, the least noise by the central limit theorem. [default: adp:
    /// matched:0.5, others: constant]
    #[arg(long, value_name = "SCHEDULE")]
    noise_schedule: Option<Text<NoiseChoice>>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct ScheduleArgs {
    /// Learning rate [default: by the numbers of steps and parameters, and for sgd by epsilon]
    #[arg(long, value_name = "L")]
    pub(in crate::cli) lr: Option<f64>,
    /// Change of the learning rate over time: constant, step:EPOCHS,FACTOR, cosine or cosine:FLOOR. Or polynomial:A,C,
    /// which is 1/sqrt(A + C t). Or root-linear or root-linear:FLOOR, which are linear in sqrt(t) [default: adp:
    /// polynomial:20,1, others: constant]
    #[arg(long, value_name = "SCHEDULE")]
    lr_schedule: Option<Text<DecayChoice>>,
    /// Epochs over which it rises to its value [default: 0]
    #[arg(long, value_name = "EPOCHS")]
    warmup: Option<f64>,
}

/// Clips each sample's whole gradient.
const FLAT: &str = "flat";
/// Rule of a constant clip.
const FIXED: &str = "fixed";
/// Methods other than filters: name, help, clip rule, noise schedule and learning-rate schedule.
const METHODS: [(&str, &str, [&str; 3]); 5] = [
    ("dp-sgd", "Abadi et al.: clip, add noise, average", [FIXED, "constant", "constant"]),
    ("dc-sgd-p", "Clip from a released histogram, by percentile", ["percentile", "constant", "constant"]),
    ("dc-sgd-e", "Clip from a released histogram, by expected error", ["expected-error", "constant", "constant"]),
    ("adp", "Noise adapted to the learning rate", [FIXED, "matched:0.5", "polynomial:20,1"]),
    ("quantile", "Clip that tracks a quantile (Andrew et al.)", ["quantile", "constant", "constant"]),
];

/// Methods that are a filter.
const FILTERS: [&str; 4] = ["doppler", "dp-pmlf", "inner-outer", "disk"];

/// Order of the help. Other methods follow.
const ORDER_OF_HELP: [&str; 8] = ["dp-sgd", "doppler", "dp-pmlf", "disk", "dc-sgd-p", "dc-sgd-e", "adp", "quantile"];

fn methods() -> PossibleValuesParser {
    let filters = FILTERS.map(|name| (name, help::<FilterChoice>(name).unwrap_or_default()));
    let mut methods: Vec<_> =
        METHODS.iter().map(|(name, help, _)| (*name, (*help).to_owned())).chain(filters).collect();
    methods.sort_by_key(|(name, _)| ORDER_OF_HELP.iter().position(|of| of == name).unwrap_or(usize::MAX));
    methods.into_iter().map(|(name, help)| PossibleValue::new(name).help(help)).collect::<Vec<_>>().into()
}

/// Reads a method's name in a run file.
fn method_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    name_among(from, METHODS.iter().map(|(name, ..)| *name).chain(FILTERS))
}

/// Parses a schedule of a method.
fn usual<T: FromStr<Err = &'static str>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| unreachable!("{error}"))
}

/// Settings of an adaptive filter: lags, memory, floor.
type Lags = (usize, f64, f64);

impl FromText for Lags {
    fn from_text(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let lags = parts.next().and_then(|part| part.parse().ok());
        let lags = lags.filter(|lags| (1..=ORDER).contains(lags)).ok_or("give LAGS, a whole number from 1 to 16")?;
        let memory = parts.next().unwrap_or("0.9").parse().ok().filter(|memory| (0.0..1.0).contains(memory));
        let memory = memory.ok_or("give MEMORY, a number from 0 to below 1, after LAGS")?;
        let floor = parts.next().unwrap_or("1e-3").parse().map_err(|_| "give FLOOR, a number, after LAGS,MEMORY")?;
        match parts.next() {
            None => Ok((lags, memory, floor)),
            Some(_) => Err("give at most LAGS,MEMORY,FLOOR".into()),
        }
    }
}

/// Returns the named filter, or the given coefficients.
fn coefficients(text: &str) -> Result<Coefficients, Failure> {
    let (parsed, or) = match text.split_once(';') {
        Some((a, b)) => (Coefficients::parse(a, b), ""),
        None => (Coefficients::named(text), "; or give coefficients A1,A2;B0,B1"),
    };
    parsed
        .and_then(|coefficients| coefficients.checked().map(|_| coefficients))
        .map_err(|error| Failure::usage(format!("`filter` {text}: {}{or}", error)))
}

impl MethodArgs {
    fn name(&self) -> &str {
        self.method.as_deref().unwrap_or(METHODS[0].0)
    }

    /// Returns the clipping rule.
    fn clipping_name(&self) -> &str {
        self.clipping.as_deref().unwrap_or(FLAT)
    }

    /// Returns true if DOPPLER filters the released gradients. Its filter replaces Adam's first moment.
    pub(in crate::cli) fn filters_for_adam(&self) -> bool {
        self.name() == "doppler"
    }

    /// Returns true if the method is DiSK, whose Adam takes both moments of the filtered gradient.
    pub(in crate::cli) fn is_disk(&self) -> bool {
        self.name() == "disk"
    }

    /// Returns true if the method leaves the optimizer open: neither its outer momentum nor its schedules are SGD's.
    pub(in crate::cli) fn takes_any_optimizer(&self) -> bool {
        !matches!(self.name(), "adp" | "inner-outer")
    }

    /// Returns true if the method is Xiao et al.'s, which has its outer momentum in the optimizer.
    pub(in crate::cli) fn needs_momentum(&self) -> bool {
        self.name() == "inner-outer"
    }

    /// Returns the slots.
    pub(in crate::cli) fn choice(
        &self,
        schedule: &ScheduleArgs,
        clip: f32,
        batch_size: u32,
    ) -> Result<Method, Failure> {
        let filter = self.filter()?;
        let threshold = self.threshold(clip, batch_size)?;
        let clipping = self.clipping()?;
        self.refuse_contradictions()?;
        let [_, noise_schedule, lr_schedule] = self.preset();
        Ok(Method {
            name: self.name().to_owned(),
            filter,
            threshold,
            count_non_finite: self.count_non_finite,
            clipping,
            noise_schedule: self.noise_schedule.as_deref().copied().unwrap_or_else(|| usual(noise_schedule)),
            learning_rate: LearningRateChoice {
                lr: schedule.lr.unwrap_or(1.0),
                warmup: schedule.warmup.unwrap_or_default(),
                decay: schedule.lr_schedule.as_deref().copied().unwrap_or_else(|| usual(lr_schedule)),
            },
        })
    }

    /// Returns the method's clip rule and schedules. A filter is a method with those of DP-SGD.
    fn preset(&self) -> [&'static str; 3] {
        METHODS.iter().find(|(name, ..)| *name == self.name()).unwrap_or(&METHODS[0]).2
    }

    fn rule(&self) -> &str {
        self.clip_rule.as_deref().unwrap_or(self.preset()[0])
    }

    /// Fails if flags exclude each other.
    fn refuse_contradictions(&self) -> Result<(), Failure> {
        let (method, rule, own) = (self.name(), self.rule(), self.preset()[0]);
        let of_rule = format!("`clip_rule` {rule}");
        if own != FIXED && rule != own {
            return Err(Failure::usage(format!(
                "{of_rule}: `method` {method} is nothing but `clip_rule` {own}; leave the one out, or use `method` dp-sgd"
            )));
        }
        if rule != FIXED && self.clipping_name() != FLAT {
            return Err(Failure::usage(format!(
                "`clipping` {}: {of_rule} learns the clip of the whole gradient from norms of the whole gradient; use \
                 `clipping` flat, or `clip_rule` fixed",
                self.clipping_name()
            )));
        }
        Ok(())
    }

    fn filter(&self) -> Result<FilterChoice, Failure> {
        let idle = |flag: &str| {
            let problem = format!("`method` {} has none; leave it out, or use `method` doppler", self.name());
            Err(Failure::usage(format!("{flag}: {problem}")))
        };
        let given = self.filter.as_deref().filter(|given| *given != "none");
        let usual = FILTERS.into_iter().find(|name| *name == self.name()).unwrap_or("none");
        let filter = match (usual, given, &self.filter) {
            _ if self.adaptive_fir.is_some() => "adaptive-fir",
            ("none", Some(_), _) => "doppler",
            ("doppler", None, Some(_)) => "none",
            (usual, ..) => usual,
        };
        if self.adaptive_fir.is_some() && usual != "doppler" {
            return idle("`adaptive_fir`");
        }
        let mut settings = Table::new();
        if let Some((lags, memory, floor)) = self.adaptive_fir.as_deref().copied() {
            settings.insert("lags".into(), Value::Integer(lags as i64));
            settings.extend([("memory".into(), Value::Float(memory)), ("floor".into(), Value::Float(floor))]);
        }
        let choice = self.filter_settings.of(filter, ("method", self.name()), settings)?;
        let taps = choice.taps();
        if self.no_bias_correction
            && (taps.is_none()
                || given.is_none() && (self.filter.is_some() || taps.is_some_and(Coefficients::is_identity)))
        {
            return idle("`no_bias_correction`");
        }
        if given.is_some() && taps.is_none() {
            return Err(Failure::usage(format!(
                "`filter`: `method` {} is a filter itself, and its look-ahead is derived for that filter alone; leave \
                 it out, or use `method` doppler",
                self.name()
            )));
        }
        let choice = if self.no_bias_correction { choice.uncorrected() } else { choice };
        Ok(match (&self.filter, given) {
            (None, _) => choice,
            (Some(_), None) => choice.with_taps(&Coefficients::identity()),
            (Some(_), Some(given)) => choice.with_taps(&coefficients(given)?),
        })
    }

    fn threshold(&self, clip: f32, batch_size: u32) -> Result<ThresholdChoice, Failure> {
        let rule = self.rule();
        let mut settings = Table::new();
        if rule == "quantile" {
            settings.insert("count_noise".into(), Value::Float(f64::from(batch_size) / 10.0));
        }
        let choice = self.threshold_settings.of(rule, ("clip-rule", rule), settings)?.with_clip(clip);
        if self.count_non_finite && !choice.has_histogram() {
            let problem = "has none; leave it out, or use `clip_rule` percentile";
            return Err(Failure::usage(format!("`count_non_finite`: `clip_rule` {rule} {problem}")));
        }
        Ok(choice)
    }

    fn clipping(&self) -> Result<Clipping, Failure> {
        self.clip_settings.of(self.clipping_name(), ("clipping", self.clipping_name()), Table::new())
    }
}
