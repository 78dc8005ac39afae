//! `damper federation plan`: fixes the settings that all sides of a federation must share, before data is read.

use super::common::{Cost, cost_text};
use crate::cli::args::data::Names;
use crate::cli::args::model::ModelArgs;
use crate::cli::args::text::Text;
use crate::cli::{Failure, answer, answer_json, number32};
use clap::{Args, ValueEnum};
use damper_data::{DataNames, TableNames};
use damper_federated::ServerModel;
use damper_federation::{
    Aggregation, DeviceNoise, FederationPlan, LocalSteps, Member, PlanSettings, Unit, members_of_text,
};
use damper_train::files::{Access, sha256, write};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the plan for devices and server, and prints the epsilon of its rounds.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(super) struct PlanArgs {
    /// The model before the first round
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The plan
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Unit of protection: `sample`, a sample's gradient is clipped, or `user`, the effect of a user's local steps is
    /// clipped once
    #[arg(long, value_name = "sample|user", default_value = "sample")]
    unit: UnitArg,
    /// Noise of a device. `local`: all of it, so that an update is private for every reader. `shares`: a part of it.
    /// The sum of the smallest cohort, without its colluders, then has all noise, for secure aggregation or a trusted
    /// server
    #[arg(long, value_name = "local|shares", default_value = "local")]
    noise: NoiseArg,
    /// Standard deviation of the noise in units of the clip: of an update, or with shares of the smallest cohort's sum
    #[arg(long, value_name = "S")]
    noise_multiplier: f64,
    /// Probability of each unit in each round. A device draws its own units
    #[arg(long, value_name = "Q", default_value_t = 1.0)]
    sampling_rate: f64,
    /// Rounds, all of which are accounted
    #[arg(long, value_name = "T")]
    rounds: u32,
    /// Devices, numbered from 1 [default: the members]
    #[arg(long, value_name = "N", required_unless_present = "members")]
    devices: Option<u32>,
    /// A text file with a line for each device, in the order of their numbers: the public key that damper federation
    /// key prints, and a name. Each device signs its updates, and only its own
    #[arg(long, value_name = "FILE")]
    members: Option<PathBuf>,
    /// Smallest number of devices whose sum is released [default: all]
    #[arg(long, value_name = "N")]
    smallest_cohort: Option<u32>,
    /// Largest number of devices in the cohort that share their updates with others, or that add no noise. Epsilon of
    /// each party excludes their noise
    #[arg(long, value_name = "N", default_value_t = 0)]
    colluders: u32,
    /// Aggregation of updates. `clear`: the server reads and adds them. `prio`: two aggregators add secret shares, and
    /// one of them is honest
    #[arg(long, value_name = "clear|prio", default_value = "clear")]
    aggregation: AggregationArg,
    /// Expected units of a device's draw. Times the number of devices in the round, it is the divisor of the sum
    #[arg(long, value_name = "B")]
    batch_size: u32,
    /// Largest number of units that a device draws in a round. Its integers have room for that many, and a larger draw
    /// is an error [default: for a device that holds four times the expected number]
    #[arg(long, value_name = "N")]
    most_units: Option<u32>,
    /// Delay in seconds between a request and a device's answer, whatever it drew, so that the time does not show the
    /// draw. A late update is noise alone [default: it answers when it is ready, and the server's epsilon is that of a
    /// sampling rate of 1]
    #[arg(long, value_name = "S")]
    reply_seconds: Option<u32>,
    /// Largest Euclidean norm of one unit's contribution
    #[arg(long, value_name = "C", default_value_t = 1.0, value_parser = number32)]
    clip: f32,
    /// The clip is 2^BITS grid units
    #[arg(long, value_name = "BITS", default_value_t = 16)]
    grid_bits: u32,
    /// The server's learning rate. With users, 1 takes the mean of their parameters
    #[arg(long, value_name = "LR", default_value_t = 1.0, value_parser = number32)]
    lr: f32,
    /// With --unit user: steps of SGD on a user's own samples in each round
    #[arg(long, value_name = "K", requires_all = ["local_lr", "local_batch"])]
    local_steps: Option<u32>,
    /// With --unit user: the learning rate of these steps
    #[arg(long, value_name = "LR", requires = "local_steps", value_parser = number32)]
    local_lr: Option<f32>,
    /// With --unit user: samples of such a step. A user with fewer samples uses all of them
    #[arg(long, value_name = "B", requires = "local_steps")]
    local_batch: Option<u32>,
    /// Delta, well below 1 / number of units
    #[arg(long, value_name = "D")]
    delta: f64,
    /// Names of the columns of devices' tables, including the label's, separated by commas, or a file with a name on
    /// each line. Each device matches its own columns by them [default: those in the model]
    #[arg(long, value_name = "NAME,NAME,...|FILE")]
    columns: Option<Text<Names>>,
    /// The label's column among them [default: the last]
    #[arg(long, value_name = "COLUMN", requires = "columns")]
    label_column: Option<String>,
    /// Names of the classes in the model's order, separated by commas, or a file with a name on each line. All devices
    /// number them in this order [default: those in the model]
    #[arg(long, value_name = "NAME,NAME,...|FILE")]
    classes: Option<Text<Names>>,
    /// Makes keys from a seed, so that the rounds can be repeated and nothing is private
    #[arg(long)]
    simulation: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ModelArgs,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum UnitArg {
    Sample,
    User,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum NoiseArg {
    Local,
    Shares,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum AggregationArg {
    Clear,
    Prio,
}

/// Privacy cost of all rounds, and size of the model.
#[derive(Serialize)]
struct Planned {
    #[serde(flatten)]
    cost: Cost,
    parameters: u32,
    sigma: u32,
    most_units: u32,
    members: usize,
    sha256: String,
    out: String,
}

/// Returns the requested names, or those of the model. If both are given, they must be equal.
fn names(args: &PlanArgs, of_model: DataNames) -> Result<DataNames, Failure> {
    let table = args.columns.as_deref().map(|Names(columns)| TableNames {
        label: args.label_column.clone().or_else(|| columns.last().cloned()),
        columns: columns.clone(),
    });
    let classes = args.classes.as_deref().map(|Names(classes)| classes.clone());
    let differs = |flag: &str, known: &[String]| {
        Failure::usage(format!("{flag}: the model has {}; leave the flag out, or use another model", known.join(", ")))
    };
    match (&table, &of_model.table) {
        (Some(given), Some(known)) if given != known => return Err(differs("`columns`", &known.columns)),
        _ => {}
    }
    match (&classes, &of_model.classes) {
        (Some(given), Some(known)) if given != known => return Err(differs("`classes`", known)),
        _ => {}
    }
    Ok(DataNames { table: table.or(of_model.table), classes: classes.or(of_model.classes) })
}

fn read_members(file: &Path) -> Result<Vec<Member>, Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::of_file(file, error))?;
    let members = members_of_text(&text).map_err(|error| Failure::of_file(file, error))?;
    if members.is_empty() {
        return Err(Failure::in_file(file, "names no member; give a line for each device"));
    }
    Ok(members)
}

pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let PlanArgs { model, options, out, .. } = args;
    let bytes = fs::read(model).map_err(|error| Failure::of_file(model, error))?;
    let read = ServerModel::read(model, options.of_file(), &options.graph_options(), &options.derive_options());
    let read = read.map_err(|error| Failure::in_model(model, error))?;
    let local = match (args.local_steps, args.local_lr, args.local_batch) {
        (Some(steps), Some(lr), Some(batch)) => Some(LocalSteps { steps, lr, batch }),
        _ => None,
    };
    let members = args.members.as_deref().map_or(Ok(vec![]), read_members)?;
    let devices = args.devices.or(u32::try_from(members.len()).ok()).unwrap_or_default();
    let settings = PlanSettings {
        unit: match args.unit {
            UnitArg::Sample => Unit::Sample,
            UnitArg::User => Unit::User,
        },
        noise: match args.noise {
            NoiseArg::Local => DeviceNoise::Local,
            NoiseArg::Shares => DeviceNoise::Shares,
        },
        noise_multiplier: args.noise_multiplier,
        sampling_rate: args.sampling_rate,
        rounds: args.rounds,
        devices,
        smallest_cohort: args.smallest_cohort.unwrap_or(devices),
        colluders: args.colluders,
        aggregation: match args.aggregation {
            AggregationArg::Clear => Aggregation::Clear,
            AggregationArg::Prio => Aggregation::Prio,
        },
        expected_batch: args.batch_size,
        most_units: args.most_units,
        reply_seconds: args.reply_seconds,
        members,
        clip: args.clip,
        grid_bits: args.grid_bits,
        lr: args.lr,
        local,
        delta: args.delta,
        simulation: args.simulation,
        model_flags: options.words(),
        names: names(args, read.names()?)?,
    };
    let plan = FederationPlan::new(&settings, read.params().len(), sha256(&bytes))?;
    let cost = Cost::of(&plan)?;
    write(out, plan.to_json().as_bytes(), Access::Public)?;
    let found = Planned {
        cost,
        parameters: plan.parameters,
        sigma: plan.sigma,
        most_units: plan.most_units,
        members: plan.members.len(),
        sha256: plan.digest(),
        out: out.display().to_string(),
    };
    if args.json {
        return answer_json(&found);
    }
    answer(&format!("{}\nwrote {}", cost_text(&plan, &found.cost), found.out))
}
