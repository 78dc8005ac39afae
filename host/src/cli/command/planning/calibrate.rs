//! `damper calibrate`: finds the noise for a budget, the steps, rate or batch that it allows, or the budget of all of
//! them.

use crate::cli::command::planning::epsilon::accountant;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_accounting::{self, Accountant, AccountingError, CalibrateQuery, Plan, Recorded, upward};
use damper_budget::{BudgetFile, BudgetRecord};
use damper_core::accounting::Rate;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.0042667 \\
    --steps 3516
How many steps a multiplier allows:
  damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.0042667 \\
    --noise-multiplier 1.1
Noise for a further run, within what is left of a data set's budget:
  damper calibrate --budget FILE --samples 60000 --batch-size 256 --steps 3516
How large a batch of those samples:
  damper calibrate --epsilon 3 --delta 1e-5 --samples 60000 \\
    --noise-multiplier 1.1 --steps 3516";

/// Finds the missing value among epsilon, noise multiplier, steps and sampling rate. With --samples, the batch size.
///
/// The epsilon of the result is at most the requested epsilon. It is at least 0.99 of it, unless one step, or the whole
/// data in every draw, lies between.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct CalibrateArgs {
    /// The budget
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// Delta, above 0 and below 1, well below 1 / number of samples
    #[arg(long, value_name = "D", required_unless_present = "budget")]
    delta: Option<f64>,
    /// Finds the noise of a run that takes the rest of the budget of a data set, at its delta. Needs --steps, and
    /// --sampling-rate or --samples and --batch-size
    #[arg(long, value_name = "FILE", requires = "steps", conflicts_with_all = ["epsilon", "delta", "noise_multiplier"])]
    budget: Option<PathBuf>,
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
    /// Accountant: tight by privacy loss distributions (`pld`), or Rényi divergences (`rdp`)
    #[arg(long, value_name = "NAME", default_value = "pld", value_parser = accountant)]
    accountant: Accountant,
    /// Finds the integer sigma on a grid of this many bits, as training does (there: 20)
    #[arg(long, value_name = "BITS", conflicts_with = "noise_multiplier", requires = "epsilon")]
    grid_bits: Option<u32>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    if let Some(file) = &args.budget {
        return of_budget(args, file);
    }
    let delta = args.delta.ok_or_else(|| Failure::new("give `delta`, or `budget` FILE"))?;
    let query = CalibrateQuery {
        accountant: args.accountant,
        epsilon: args.epsilon,
        delta,
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

/// Noise of a further run on a data set.
#[derive(Serialize)]
struct OfBudget {
    /// ε of all runs including this run.
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    sampling_rate: f64,
    steps: u64,
    accountant: Accountant,
    dataset: String,
    limit: f64,
    /// ε of the runs charged so far.
    spent: f64,
}

/// Grid of `damper train` without --grid-bits.
const GRID_BITS: u32 = 20;
/// The search stops at multipliers with this ratio.
const CLOSE: f64 = 1.0 + 1e-4;

/// A further run to search for.
struct Further<'a> {
    record: &'a BudgetRecord,
    rate: Rate,
    steps: u64,
    grid: Grid,
}

impl Further<'_> {
    /// Returns ε of all runs and a further run with `multiplier`, rounded to its grid. Infinite if no finite ε holds.
    fn total(&self, multiplier: f64) -> Result<f64, Failure> {
        let ran = DiscreteGaussian::<i64>::with_multiplier(self.grid, multiplier)?;
        let plan = Plan::constant(self.rate, ran.multiplier(), None, self.steps)?;
        match self.record.epsilon(Some(&Recorded::new(Accountant::Pld, self.record.header.delta, plan.events()))) {
            Ok(epsilon) => Ok(epsilon),
            Err(AccountingError::NothingHolds { .. }) => Ok(f64::INFINITY),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the smallest multiplier with a total of at most `limit`, to a ten-thousandth, and the total.
    fn search(&self, limit: f64) -> Result<Option<(f64, f64)>, Failure> {
        let (mut low, mut high) = (0.05, 0.1);
        let mut total = self.total(high)?;
        while total > limit {
            (low, high) = (high, 2.0 * high);
            if high > 1000.0 {
                return Ok(None);
            }
            total = self.total(high)?;
        }
        while high > low * CLOSE {
            let middle = (low * high).sqrt();
            match self.total(middle)? {
                found if found <= limit => (high, total) = (middle, found),
                _ => low = middle,
            }
        }
        Ok(Some((high, total)))
    }
}

fn of_budget(args: &CalibrateArgs, file: &Path) -> Result<(), Failure> {
    let record = BudgetFile::open(file)?.record().clone();
    let Some(limit) = record.header.epsilon else {
        return Err(Failure::in_file(
            file,
            "has no limit, so nothing can be found; give `epsilon` and `delta` instead of `budget`",
        ));
    };
    let rate = match (args.sampling_rate, args.samples, args.batch_size) {
        (Some(rate), ..) => damper_accounting::sampling_rate(rate)?,
        (None, Some(samples), Some(batch)) => {
            Rate::of(batch, samples).map_err(|_| AccountingError::Batch { batch, samples })?
        }
        _ => return Err(Failure::usage("`budget`: needs `sampling_rate`, or `samples` and `batch_size`")),
    };
    let steps = args.steps.ok_or_else(|| Failure::usage("`budget`: needs `steps`"))?;
    let grid = Grid::new(GRID_BITS)?;
    let in_file =
        |error: AccountingError| Failure::in_file(file, format!("the cost of its runs cannot be computed: {error}"));
    let spent = record.epsilon(None).map_err(in_file)?;
    let found = if spent < limit { Further { record: &record, rate, steps, grid }.search(limit)? } else { None };
    let Some((noise_multiplier, epsilon)) = found else {
        return Err(Failure::in_file(
            file,
            format!(
                "{} of the limit {limit} is spent, and no noise brings a run of {steps} steps below the rest; lower `steps` or the \
                 batch size",
                upward(spent)
            ),
        ));
    };
    let found = OfBudget {
        epsilon,
        delta: record.header.delta,
        noise_multiplier,
        sampling_rate: rate.as_f64(),
        steps,
        accountant: Accountant::Pld,
        dataset: record.header.dataset.clone(),
        limit,
        spent,
    };
    if args.json {
        return answer_json(&found);
    }
    answer(&format!(
        "noise multiplier  {noise_multiplier}\nepsilon           {} of all runs and this one, at most {limit}\nspent             {} \
         before it\ndelta             {:e}\nsampling rate     {}\nsteps             {steps}\ndataset           {}",
        upward(epsilon),
        upward(spent),
        found.delta,
        found.sampling_rate,
        found.dataset,
    ))
}
