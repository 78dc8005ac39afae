//! `damper aggregate`: adds the updates of a federation's devices.

use super::{Failure, answer, answer_json};
use clap::Args;
use damper_train::aggregate::Aggregate;
use damper_train::files::{Access, AtomicFile};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Each file is what one device emitted in one round: a clipped sum of its
samples' gradients with the device's own noise, as integers on a grid. The
sum is a file of the same format with integers of eight bytes. An integer is
worth clip / 2^bits; divide by devices x expected batch for the mean.

Examples:
  damper aggregate round-7/*.upd --out round-7.sum";

/// Adds the updates of a federation's devices: of one round and one configuration, each device once.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AggregateArgs {
    /// Updates that devices emitted
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The sum
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AccountingResult {
    devices: u32,
    run: u64,
    round: u32,
    parameters: u32,
    clip: f32,
    grid_bits: u32,
    /// Of each device.
    noise_multiplier: f64,
    /// Of each device.
    expected_batch: u32,
    out: String,
}

pub(super) fn run(args: &AggregateArgs) -> Result<(), Failure> {
    if args.files.contains(&args.out) {
        return Err(Failure::new(format!("--out {}: an update to be added; name another file", args.out.display())));
    }
    let mut sum = Aggregate::default();
    for file in &args.files {
        let bytes = fs::read(file).map_err(|error| Failure::of_file(file, error))?;
        sum.add(&file.display().to_string(), &bytes)?;
    }
    let (Some(header), Some(bytes)) = (sum.header(), sum.to_bytes()) else {
        return Err(Failure::new("no updates: name at least one FILE"));
    };
    let mut out = AtomicFile::create(&args.out, Access::Public)?;
    out.write_all(&bytes).map_err(|error| Failure::of_file(&args.out, error))?;
    out.commit()?;
    let found = AccountingResult {
        devices: header.devices,
        run: header.run,
        round: header.round,
        parameters: header.dim,
        clip: header.clip,
        grid_bits: header.grid_bits,
        noise_multiplier: header.multiplier(),
        expected_batch: header.expected_batch,
        out: args.out.display().to_string(),
    };
    if args.json {
        return answer_json(&found);
    }
    answer(&format!(
        "run {}, round {}: {} devices, {} parameters, clip {}, noise multiplier {} on each device\nwrote {}",
        found.run, found.round, found.devices, found.parameters, found.clip, found.noise_multiplier, found.out
    ))
}
