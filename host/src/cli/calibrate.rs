//! `damper calibrate`: the noise that a budget needs, the steps, the rate or the batch that it allows, or the budget that all of them
//! need.

use super::epsilon::accountant;
use super::{Failure, answer, answer_json};
use crate::accounting::{Accountant, CalibrateQuery};
use clap::Args;

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.0042667 \\
    --steps 3516
How many steps a multiplier allows:
  damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.0042667 \\
    --noise-multiplier 1.1
How large a batch of those samples:
  damper calibrate --epsilon 3 --delta 1e-5 --samples 60000 \\
    --noise-multiplier 1.1 --steps 3516";

/// Finds the one of epsilon, noise multiplier, steps and sampling rate that is left out; with --samples, the batch size.
///
/// The epsilon of what is found is at most the one asked for, and at least 0.99 of it unless one step, or the whole data in
/// every draw, lies between.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct CalibrateArgs {
    /// The budget
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// Delta, above 0 and below 1; well below 1 / number of samples
    #[arg(long, value_name = "D")]
    delta: f64,
    /// Standard deviation of the noise, in units of the clip
    #[arg(long, value_name = "S")]
    noise_multiplier: Option<f64>,
    /// Probability of each sample in each draw: expected batch size / number of samples, above 0 and at most 1
    #[arg(long, value_name = "Q", conflicts_with_all = ["samples", "batch_size"])]
    sampling_rate: Option<f64>,
    /// Number of samples: the sampling rate is then that of --batch-size, or the batch size is found
    #[arg(long, value_name = "N")]
    samples: Option<u64>,
    /// Expected number of samples in a draw
    #[arg(long, value_name = "B", requires = "samples")]
    batch_size: Option<u64>,
    /// Number of draws: epochs * samples / batch size
    #[arg(long, value_name = "T")]
    steps: Option<u64>,
    /// Which bound: tight by privacy loss distributions (`pld`), or Rényi divergences (`rdp`)
    #[arg(long, value_name = "NAME", default_value = "pld", value_parser = accountant)]
    accountant: Accountant,
    /// Finds the integer sigma that a grid of this many bits runs, as training does (there: 20)
    #[arg(long, value_name = "BITS", conflicts_with = "noise_multiplier", requires = "epsilon")]
    grid_bits: Option<u32>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    let query = CalibrateQuery {
        accountant: args.accountant,
        epsilon: args.epsilon,
        delta: args.delta,
        noise_multiplier: args.noise_multiplier,
        sampling_rate: args.sampling_rate,
        samples: args.samples,
        batch_size: args.batch_size,
        steps: args.steps,
        grid_bits: args.grid_bits,
    };
    let found = query.answer()?;
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}
