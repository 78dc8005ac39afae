//! `damper factorize`: the table of correlated noise for a run on a device.

use crate::cli::args::text::FromText;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_accounting::factor::{FactorizeQuery, Objective};

const AFTER_HELP: &str = "\
A device that takes its samples in a fixed order, 100 batches an epoch, 10 epochs:
  damper factorize --steps 1000 --buffers 2 --separation 100 \\
    --participations 10
Each sample once, as in one pass over a stream:
  damper factorize --steps 1000 --buffers 2 --json
Memory on the device: one 64-bit integer a parameter for each buffer.";

/// Finds correlated noise for a run: decays and scales of a buffered linear Toeplitz matrix (BLT) whose noise partly
/// cancels over steps.
///
/// The noise of the sum over steps is compared at equal epsilon: the root loss. Correlated noise needs a fixed order of
/// the samples. If every sample takes part in every step, nothing is gained.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct FactorizeArgs {
    /// Steps of the run, 1 to 1000000
    #[arg(long, value_name = "N")]
    steps: u64,
    /// Maximum number of buffers, 1 to 8. Fewer are printed if another buffer gains nothing
    #[arg(long, value_name = "D")]
    buffers: u32,
    /// The least distance of two steps of a sample: the steps of an epoch in a fixed order
    #[arg(long, value_name = "B", requires = "participations")]
    separation: Option<u64>,
    /// The most steps of a sample: the number of epochs
    #[arg(long, value_name = "K", requires = "separation")]
    participations: Option<u64>,
    /// Noise to keep small: of the sum over all steps (`max`), or of the sums up to each step, on average (`mean`)
    #[arg(long, value_name = "NAME", default_value = "max", value_parser = objective)]
    objective: Objective,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn objective(name: &str) -> Result<Objective, String> {
    match name {
        "max" => Ok(Objective::Max),
        "mean" => Ok(Objective::Mean),
        _ => Err("`max` or `mean`".to_owned()),
    }
}

pub(in crate::cli) fn run(args: &FactorizeArgs) -> Result<(), Failure> {
    let query = FactorizeQuery {
        steps: args.steps,
        buffers: args.buffers,
        pattern: args.separation.zip(args.participations),
        objective: args.objective,
    };
    let found = query.answer()?;
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}

impl FromText for Objective {
    fn from_text(text: &str) -> Result<Self, String> {
        objective(text)
    }
}
