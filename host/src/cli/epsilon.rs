//! `damper epsilon`: what a noise multiplier costs.

use super::{Failure, answer, answer_json};
use crate::accounting::EpsilonQuery;
use clap::{Args, ValueEnum};

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper epsilon --noise-multiplier 1.1 --sampling-rate 0.0042667 \\
    --steps 3516 --delta 1e-5";

/// Says which epsilon a noise multiplier gives.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct EpsilonArgs {
    /// Standard deviation of the noise, in units of the clip
    #[arg(long, value_name = "S")]
    noise_multiplier: f64,
    #[command(flatten)]
    common: Common,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// What both directions ask about.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Common {
    /// Probability of each sample in each draw: expected batch size / number of samples, above 0 and at most 1
    #[arg(long, value_name = "Q")]
    pub sampling_rate: f64,
    /// Number of draws: epochs * samples / batch size
    #[arg(long, value_name = "T")]
    pub steps: u64,
    /// Delta, above 0 and below 1; well below 1 / number of samples
    #[arg(long, value_name = "D")]
    pub delta: f64,
    /// Which bound
    #[arg(long, value_name = "NAME", default_value = "rdp", value_parser = accountant)]
    pub accountant: Accountant,
}

/// The accountants that there are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accountant {
    /// Rényi divergences.
    Rdp,
}

/// Says what there is, where something else is asked for.
pub(super) fn accountant(name: &str) -> Result<Accountant, String> {
    match name {
        "rdp" => Ok(Accountant::Rdp),
        "pld" => Err("not in this version, which has: rdp".into()),
        _ => Err("unknown; this version has: rdp".into()),
    }
}

pub(super) fn run(args: &EpsilonArgs) -> Result<(), Failure> {
    let Common { sampling_rate, steps, delta, accountant: Accountant::Rdp } = args.common;
    let query = EpsilonQuery { noise_multiplier: args.noise_multiplier, sampling_rate, steps, delta };
    let found = query.answer()?;
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}
