//! Which optimizer `damper train` follows released gradients by: a name, and flags for what it reads.

use super::method::{MethodArgs, ScheduleArgs, name};
use super::{Failure, pair};
use clap::{Args, ValueEnum};
use damper_train::{LowRank, NormStep, OptimizerChoice, Rule};
use std::num::NonZeroU32;

#[derive(Args, Debug)]
#[command(next_help_heading = "Optimizer")]
pub(super) struct OptimizerArgs {
    /// The optimizer; `momentum` is sgd with momentum 0.9, `nesterov` the same in Nesterov's form
    #[arg(long, value_name = "NAME", default_value = "sgd")]
    optimizer: OptimizerArg,
    #[command(flatten)]
    pub(super) schedule: ScheduleArgs,
    /// sgd, momentum, nesterov: the share of the last step that is kept, from 0 to below 1 [default: sgd 0; the
    /// others 0.9]
    #[arg(long, value_name = "M")]
    momentum: Option<f32>,
    /// sgd, momentum: Nesterov's form
    #[arg(long)]
    nesterov: bool,
    /// adamw, adam-bc: decoupled decay; the others: L2 penalty; adam has none [default: 0; adamw: 0.01]
    #[arg(long, value_name = "W")]
    weight_decay: Option<f64>,
    /// adam, adamw, adam-bc: decay of the first and second moment [default: 0.9,0.999; doppler: 0,0.999, for its filter is
    /// the first moment]
    #[arg(long, value_name = "B1,B2", allow_hyphen_values = true, value_parser = pair::<f64>)]
    betas: Option<(f64, f64)>,
    /// adam, adamw, adagrad, rmsprop: what is added to the root of the second moment; adam-bc: the least second moment
    /// that is left after the noise's is taken off [default: 1e-8; adagrad: 1e-10; adam-bc: by the noise]
    #[arg(long, value_name = "E")]
    adam_epsilon: Option<f32>,
    /// adam, adamw: how the epsilon keeps the denominator above 0: `added` to the root of the second moment, or `floored`,
    /// the larger of both (DOPPLER) [default: added]
    #[arg(long, value_name = "NAME")]
    adam_denominator: Option<DenominatorArg>,
    /// rmsprop: decay of the second moment [default: 0.99]
    #[arg(long, value_name = "A")]
    alpha: Option<f64>,
    /// Divides the learning rate by the root of B0 plus the squared norms of the gradients released so far, each at least NU
    #[arg(long, value_name = "B0,NU", allow_hyphen_values = true, value_parser = pair::<f64>)]
    adagrad_norm: Option<(f64, f64)>,
    /// --adagrad-norm: takes the noise's own share off each squared norm
    #[arg(long, requires = "adagrad_norm")]
    subtract_noise: bool,
    /// --adagrad-norm: the first of every STEPS steps counts BETA times, the second BETA / 2 times, down to once (ADP)
    #[arg(long, value_name = "BETA,STEPS", requires = "adagrad_norm", allow_hyphen_values = true, value_parser = norm_weight)]
    norm_weight: Option<(f64, NonZeroU32)>,
    /// GaLore: tensors with more than RANK rows and more than RANK columns (all axes but the first) follow the optimizer in
    /// RANK directions only, found again every EVERY steps in the released gradient; SCALE multiplies their step
    /// [default: EVERY 200, SCALE 1]
    #[arg(long, value_name = "RANK[,EVERY[,SCALE]]", allow_hyphen_values = true, value_parser = low_rank)]
    galore: Option<LowRank>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum OptimizerArg {
    Sgd,
    Momentum,
    Nesterov,
    Adam,
    Adamw,
    AdamBc,
    Adagrad,
    Rmsprop,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum DenominatorArg {
    Added,
    Floored,
}

impl OptimizerArgs {
    pub(super) fn choice(&self, method: &MethodArgs) -> Result<OptimizerChoice, Failure> {
        let norm_step =
            self.adagrad_norm.map(|(initial, floor)| NormStep { initial, floor, subtract_noise: self.subtract_noise });
        self.refuse_idle_flags(method)?;
        Ok(OptimizerChoice { rule: self.rule(method)?, norm_step, norm_weight: self.norm_weight, galore: self.galore })
    }

    /// A flag that the optimizer does not read would be a misunderstanding.
    fn refuse_idle_flags(&self, method: &MethodArgs) -> Result<(), Failure> {
        use OptimizerArg::{Adam, AdamBc, Adamw, Momentum, Nesterov, Rmsprop, Sgd};
        let optimizer = self.optimizer;
        let name = name(optimizer);
        let sgd = matches!(optimizer, Sgd | Momentum | Nesterov);
        let adam = matches!(optimizer, Adam | Adamw | AdamBc);
        let added = matches!(optimizer, Adam | Adamw);
        let flags = [
            ("--momentum", self.momentum.is_some(), sgd, "--optimizer momentum"),
            ("--nesterov", self.nesterov, sgd, "--optimizer nesterov"),
            ("--betas", self.betas.is_some(), adam, "--optimizer adam"),
            ("--adam-epsilon", self.adam_epsilon.is_some(), !sgd, "--optimizer adam"),
            ("--adam-denominator", self.adam_denominator.is_some(), added, "--optimizer adam"),
            ("--alpha", self.alpha.is_some(), optimizer == Rmsprop, "--optimizer rmsprop"),
            ("--weight-decay", self.weight_decay.is_some(), optimizer != Adam, "--optimizer adamw"),
        ];
        for (flag, given, read, others) in flags {
            if given && !read {
                return Err(Failure::new(format!(
                    "{flag}: --optimizer {name} has none; leave it out, or use {others}"
                )));
            }
        }
        if method.needs_momentum() && !matches!(optimizer, Momentum | Nesterov) && self.momentum.is_none() {
            return Err(Failure::new(
                "--method inner-outer: its outer momentum is the optimizer's; use --optimizer momentum",
            ));
        }
        Ok(())
    }

    fn rule(&self, method: &MethodArgs) -> Result<Rule, Failure> {
        let decay = self.weight_decay.unwrap_or(0.0);
        let epsilon = self.adam_epsilon.unwrap_or(1e-8);
        let (beta1, beta2) = self.betas.unwrap_or((if method.filters_for_adam() { 0.0 } else { 0.9 }, 0.999));
        let filtered_second = method.is_disk();
        Ok(match self.optimizer {
            OptimizerArg::Sgd | OptimizerArg::Momentum | OptimizerArg::Nesterov => {
                let usual = if self.optimizer == OptimizerArg::Sgd { 0.0 } else { 0.9 };
                let momentum = self.momentum.unwrap_or(usual);
                let nesterov = self.nesterov || self.optimizer == OptimizerArg::Nesterov;
                if nesterov && momentum == 0.0 {
                    return Err(Failure::new("--nesterov: needs a momentum above 0; add --momentum 0.9"));
                }
                Rule::Sgd { momentum, nesterov, weight_decay: decay as f32 }
            }
            OptimizerArg::Adam | OptimizerArg::Adamw => {
                let usual = if self.optimizer == OptimizerArg::Adam { 0.0 } else { 0.01 };
                let weight_decay = self.weight_decay.unwrap_or(usual);
                match self.adam_denominator {
                    None | Some(DenominatorArg::Added) => {
                        Rule::Adam { beta1, beta2, epsilon, weight_decay, filtered_second }
                    }
                    Some(DenominatorArg::Floored) => {
                        Rule::FlooredAdam { beta1, beta2, epsilon, weight_decay, filtered_second }
                    }
                }
            }
            OptimizerArg::AdamBc => Rule::AdamBc { beta1, beta2, floor: self.adam_epsilon, weight_decay: decay },
            OptimizerArg::Adagrad => {
                Rule::AdaGrad { epsilon: self.adam_epsilon.unwrap_or(1e-10), weight_decay: decay as f32 }
            }
            OptimizerArg::Rmsprop => {
                Rule::RmsProp { alpha: self.alpha.unwrap_or(0.99), epsilon, weight_decay: decay as f32 }
            }
        })
    }
}

fn norm_weight(text: &str) -> Result<(f64, NonZeroU32), String> {
    let (weight, period) = text.split_once(',').ok_or("give BETA,STEPS")?;
    let weight = weight.trim().parse().map_err(|_| "give BETA, a number of at least 1")?;
    let period = period.trim().parse().map_err(|_| "give STEPS, a whole number of at least 1, after BETA")?;
    Ok((weight, period))
}

fn low_rank(text: &str) -> Result<LowRank, String> {
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
