//! Optimizer of `damper train`: a name, and flags for its settings.

use crate::cli::Failure;
use crate::cli::args::method::{MethodArgs, ScheduleArgs};
use crate::cli::args::settings::{SettingArgs, name_of, names};
use crate::cli::args::text::{FromText, Text};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use damper_train::{AdamDenominator, GivenOptimizer, LowRank, NormStep, OptimizerChoice, OptimizerRule, SecondMoment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use toml::Table;

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Optimizer")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct OptimizerArgs {
    /// The optimizer. `momentum` is sgd with momentum 0.9, `nesterov` the same in Nesterov's form [default: sgd,
    /// or adam if --lr is not given either]
    #[arg(long, value_name = "NAME", value_parser = names::<OptimizerRule>())]
    #[serde(deserialize_with = "name_of::<_, OptimizerRule>")]
    optimizer: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) schedule: ScheduleArgs,
    #[command(flatten)]
    #[serde(flatten)]
    settings: SettingArgs<OptimizerRule>,
    /// adam, adamw: use of epsilon to keep the denominator above 0: `added` to the root of the second moment, or
    /// `floored`, the larger of both (DOPPLER) [default: added]
    #[arg(long, value_name = "NAME", value_parser = denominator())]
    adam_denominator: Option<AdamDenominator>,
    /// Divides the learning rate by the root of B0 plus the squared norms of the gradients released so far, each at
    /// least NU
    #[arg(long, value_name = "B0,NU", allow_hyphen_values = true)]
    adagrad_norm: Option<Text<(f64, f64)>>,
    /// --adagrad-norm: takes the noise's own share off each squared norm
    #[arg(long)]
    subtract_noise: bool,
    /// --adagrad-norm: the first of every STEPS steps counts BETA times, the second BETA / 2 times, down to once (ADP)
    #[arg(long, value_name = "BETA,STEPS", allow_hyphen_values = true)]
    norm_weight: Option<Text<NormWeight>>,
    /// GaLore: tensors with more than RANK rows and more than RANK columns (all axes but the first) follow the
    /// optimizer in RANK directions only. The directions are computed every EVERY steps from the released gradient.
    /// SCALE multiplies their step [default: EVERY 200, SCALE 1]
    #[arg(long, value_name = "RANK[,EVERY[,SCALE]]", allow_hyphen_values = true)]
    galore: Option<Text<LowRank>>,
}

fn denominator() -> impl TypedValueParser<Value = AdamDenominator> {
    PossibleValuesParser::new(["added", "floored"]).map(|name| match name.as_str() {
        "floored" => AdamDenominator::Floored,
        _ => AdamDenominator::Added,
    })
}

impl OptimizerArgs {
    /// Returns the optimizer, as far as defaults depend on it. If `is_open`, it is open unless its flags are SGD's.
    pub(in crate::cli) fn given(&self, is_open: bool) -> GivenOptimizer {
        let is_usual = matches!(self.optimizer.as_deref(), Some("momentum" | "nesterov"));
        let momentum = self.settings.number("momentum").unwrap_or(if is_usual { 0.9 } else { 0.0 });
        let is_of_sgd = self.settings.has("momentum") || self.settings.has("nesterov") || self.adagrad_norm.is_some();
        match self.optimizer.as_deref() {
            None if is_open && !is_of_sgd => GivenOptimizer::Open,
            None | Some("sgd" | "momentum" | "nesterov") => GivenOptimizer::Sgd(momentum),
            Some(_) => GivenOptimizer::Adaptive,
        }
    }

    /// Takes the default optimizer, if none is given. Adam with weight decay is adamw.
    pub(in crate::cli) fn take(&mut self, optimizer: GivenOptimizer) {
        if optimizer == GivenOptimizer::Adaptive && self.optimizer.is_none() {
            let name = if self.settings.has("weight-decay") { "adamw" } else { "adam" };
            self.optimizer = Some(name.into());
        }
    }

    /// Returns the given weight decay.
    pub(in crate::cli) fn weight_decay(&self) -> f64 {
        self.settings.number("weight-decay").unwrap_or(0.0)
    }

    pub(in crate::cli) fn choice(&self, method: &MethodArgs) -> Result<OptimizerChoice, Failure> {
        let norm_step = self.adagrad_norm.as_deref().copied();
        let subtract_noise = self.subtract_noise;
        Ok(OptimizerChoice {
            rule: self.rule(method)?,
            norm_step: norm_step.map(|(initial, floor)| NormStep { initial, floor, subtract_noise }),
            norm_weight: self.norm_weight.as_deref().copied(),
            galore: self.galore.as_deref().copied(),
        })
    }

    fn rule(&self, method: &MethodArgs) -> Result<OptimizerRule, Failure> {
        let name = self.optimizer.as_deref().unwrap_or("sgd");
        let mut rule = self.settings.of(name, ("optimizer", name), Table::new())?;
        let is_adam = matches!(name, "adam" | "adamw");
        if self.adam_denominator.is_some() && !is_adam {
            return Err(Failure::usage(format!(
                "`adam_denominator`: `optimizer` {name} has none; leave it out, or use `optimizer` adam"
            )));
        }
        let has_momentum = matches!(name, "momentum" | "nesterov");
        if method.needs_momentum() && !has_momentum && !self.settings.has("momentum") {
            return Err(Failure::usage(
                "`method` inner-outer: its outer momentum is the optimizer's; use `optimizer` momentum",
            ));
        }
        match &mut rule {
            OptimizerRule::Adam { betas, second_moment, denominator, .. } => {
                if method.filters_for_adam() && !self.settings.has("betas") {
                    betas[0] = 0.0;
                }
                if method.is_disk() {
                    *second_moment = SecondMoment::Filtered;
                }
                *denominator = self.adam_denominator.unwrap_or_default();
            }
            OptimizerRule::AdamBc { betas, .. } if method.filters_for_adam() && !self.settings.has("betas") => {
                betas[0] = 0.0
            }
            OptimizerRule::Sgd { momentum: 0.0, nesterov: true, .. } => {
                return Err(Failure::usage("`nesterov`: needs a momentum above 0; add `momentum` 0.9"));
            }
            _ => {}
        }
        Ok(rule)
    }
}

/// First weight, and the number of steps in which it decays.
type NormWeight = (f64, NonZeroU32);

impl FromText for NormWeight {
    fn from_text(text: &str) -> Result<Self, String> {
        let (weight, period) = text.split_once(',').ok_or("give BETA,STEPS")?;
        let weight = weight.trim().parse().map_err(|_| "give BETA, a number of at least 1")?;
        let period = period.trim().parse().map_err(|_| "give STEPS, a whole number of at least 1, after BETA")?;
        Ok((weight, period))
    }
}

pub(in crate::cli) fn low_rank(text: &str) -> Result<LowRank, String> {
    let mut parts = text.split(',').map(str::trim);
    let rank = parts.next().and_then(|part| part.parse().ok());
    let rank = rank.ok_or("give RANK, a whole number of at least 1: the directions that are kept of each matrix")?;
    let every = parts.next().unwrap_or("200").parse();
    let every: NonZeroU32 = every.map_err(|_| "give EVERY, a whole number of steps of at least 1, after RANK")?;
    let scale = parts.next().unwrap_or("1").parse().ok().filter(|scale: &f32| scale.is_normal() && *scale > 0.0);
    let scale = scale.ok_or("give SCALE, a number above 0, after RANK,EVERY")?;
    match parts.next() {
        None => Ok(LowRank { rank, every, scale }),
        Some(_) => Err("give at most RANK,EVERY,SCALE".into()),
    }
}

impl FromText for LowRank {
    fn from_text(text: &str) -> Result<Self, String> {
        low_rank(text)
    }
}
