//! `damper calibrate`: the noise that a budget needs.

use super::epsilon::{Accountant, Common};
use super::{Failure, answer, answer_json};
use crate::accounting::CalibrateQuery;
use clap::Args;

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.0042667 \\
    --steps 3516";

/// Says which noise multiplier an epsilon needs.
///
/// The epsilon of the multiplier found lies between 0.99 of the one asked for and that one.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct CalibrateArgs {
    /// The budget
    #[arg(long, value_name = "E")]
    epsilon: f64,
    #[command(flatten)]
    common: Common,
    /// Finds the integer sigma that a grid of this many bits runs, as training does (there: 20)
    #[arg(long, value_name = "BITS")]
    grid_bits: Option<u32>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    let Common { sampling_rate, steps, delta, accountant: Accountant::Rdp } = args.common;
    let query = CalibrateQuery { epsilon: args.epsilon, delta, sampling_rate, steps, grid_bits: args.grid_bits };
    let found = query.answer()?;
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}
