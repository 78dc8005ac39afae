//! `damper epsilon`: what a noise multiplier costs, or what a run did.

use super::{Failure, answer, answer_json};
use crate::accounting::{Accountant, EpsilonQuery, Recorded, upward};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper epsilon --noise-multiplier 1.1 --sampling-rate 0.0042667 \\
    --steps 3516 --delta 1e-5
The same of a run that damper train has made, from its recorded draws:
  damper epsilon DIR";

/// The file of a run's folder that records its draws.
pub(super) const EVENTS: &str = "events.json";

/// Says which epsilon a noise multiplier gives, or a run's recorded draws.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct EpsilonArgs {
    /// A run's folder: epsilon is computed again from its events.json alone
    #[arg(value_name = "DIR", conflicts_with_all = ["noise_multiplier", "sampling_rate", "steps"])]
    folder: Option<PathBuf>,
    /// Standard deviation of the noise, in units of the clip
    #[arg(long, value_name = "S", required_unless_present = "folder")]
    noise_multiplier: Option<f64>,
    /// Probability of each sample in each draw: expected batch size / number of samples, above 0 and at most 1
    #[arg(long, value_name = "Q", required_unless_present = "folder")]
    sampling_rate: Option<f64>,
    /// Number of draws: epochs * samples / batch size
    #[arg(long, value_name = "T", required_unless_present = "folder")]
    steps: Option<u64>,
    /// Delta, above 0 and below 1; well below 1 / number of samples [default with DIR: the run's]
    #[arg(long, value_name = "D", required_unless_present = "folder")]
    delta: Option<f64>,
    /// Which bound: tight by privacy loss distributions (`pld`, the default), or Rényi divergences (`rdp`) [default with DIR:
    /// the run's]
    #[arg(long, value_name = "NAME", value_parser = accountant)]
    accountant: Option<Accountant>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// What a run's recorded draws cost.
#[derive(Serialize)]
struct OfRun {
    epsilon: f64,
    delta: f64,
    /// The smallest of a draw.
    noise_multiplier: f64,
    /// The largest of a draw.
    sampling_rate: f64,
    steps: u64,
    accountant: Accountant,
}

/// Says what there is, where something else is asked for.
pub(super) fn accountant(name: &str) -> Result<Accountant, String> {
    match name {
        "rdp" => Ok(Accountant::Rdp),
        "pld" => Ok(Accountant::Pld),
        _ => Err("unknown; this version has: pld, rdp".into()),
    }
}

pub(super) fn run(args: &EpsilonArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.folder {
        return of_run(args, &folder.join(EVENTS));
    }
    let (Some(noise_multiplier), Some(sampling_rate), Some(steps), Some(delta)) =
        (args.noise_multiplier, args.sampling_rate, args.steps, args.delta)
    else {
        return Err(Failure::new("give a run's folder, or --noise-multiplier, --sampling-rate, --steps and --delta"));
    };
    let accountant = args.accountant.unwrap_or_default();
    let found = EpsilonQuery { accountant, noise_multiplier, sampling_rate, steps, delta }.answer()?;
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}

fn of_run(args: &EpsilonArgs, file: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::in_file(file, error))?;
    let recorded: Recorded = serde_json::from_str(&text).map_err(|error| Failure::in_file(file, error))?;
    let (delta, accountant) = (args.delta.unwrap_or(recorded.delta), args.accountant.unwrap_or(recorded.accountant));
    let priced = recorded.epsilon(accountant, delta).map_err(|error| Failure::in_file(file, error))?;
    let found = OfRun {
        epsilon: priced.epsilon,
        delta,
        noise_multiplier: recorded.smallest_multiplier(),
        sampling_rate: recorded.largest_rate(),
        steps: recorded.steps(),
        accountant,
    };
    if args.json {
        return answer_json(&found);
    }
    answer(&format!(
        "epsilon           {}\ndelta             {:e}\nnoise multiplier  {} (smallest of a draw)\nsampling rate     {} \
         (largest of a draw)\nsteps             {}\naccountant        {}\nfrom              {}, and nothing else",
        upward(found.epsilon),
        found.delta,
        found.noise_multiplier,
        found.sampling_rate,
        found.steps,
        found.accountant,
        file.display(),
    ))
}
