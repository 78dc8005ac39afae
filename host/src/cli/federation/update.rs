//! `damper federation update`: a device's round on its own data.

use super::super::data::DataArgs;
use super::super::machine::MachineArgs;
use super::super::model::ModelArgs;
use super::super::rows::RowWarnings;
use super::super::{Failure, answer, answer_json};
use super::common::{check_model, read_device, read_params, read_plan, read_users};
use clap::Args;
use damper_runtime::open;
use damper_train::check_file_fits;
use damper_train::federated::{Device, DeviceData, DeviceNoise, Machine, Request, RoundLedger, Unit};
use damper_train::files::{Access, AtomicFile};
use damper_train::gradients::GradientOptions;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The round is charged to --ledger, on the disk, before a unit is drawn. A round is
charged once: keep FILE until it has arrived, and send it again as it is. The noise
has a fresh key, which is nowhere kept.";

/// Makes a device's update: clips the contribution of each unit that it draws, adds them on the grid, and adds its noise.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct UpdateArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model of the plan, this device's own file in all rounds
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The trained parameters of the round, from the server: float32 words, little-endian [default in round 0: the model's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// The update
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// This device's number, from 1
    #[arg(long, value_name = "N")]
    device: u32,
    /// The round, counted from 0
    #[arg(long, value_name = "T")]
    round: u32,
    /// This device's folder with the rounds that are charged; made if it is not there
    #[arg(long, value_name = "DIR")]
    ledger: PathBuf,
    /// With --unit user: a text with the user of each training row, a name a line [default: all rows are one user's]
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The seed of a simulation's noise
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    options: ModelArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

#[derive(Serialize)]
struct Made {
    device: u32,
    round: u32,
    run: u64,
    unit: Unit,
    bytes: usize,
    rounds_charged: u32,
    rounds: u32,
    out: String,
}

pub(super) fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let UpdateArgs { model, out, device, round, data, options, machine, .. } = args;
    let plan = read_plan(&args.plan)?;
    let member = Device::new(&plan, *device, args.seed)?;
    check_model(&plan, model)?;
    let params = args.params.as_deref().map(read_params).transpose()?;
    let request = Request { round: *round, params: params.as_deref() };
    let read = read_device(&plan, model, data, &data.data, options)?;
    let users = read_users(args.users.as_deref(), &read, &plan)?;
    let mut ledger = RoundLedger::open(&args.ledger, &plan)?;
    let backend = open(machine.backend()?)?;
    let settings =
        GradientOptions { physical_batch: machine.physical_batch, memory: machine.memory, workers: machine.workers };
    let running = Machine { backend: backend.as_ref(), options: &settings };
    // An update with a share of the noise is for a secure aggregation.
    let access = if plan.noise == DeviceNoise::Local { Access::Public } else { Access::Private };
    // A file that cannot be written is found out before the round is charged.
    check_file_fits(out, 4 * u64::from(plan.parameters) + 4096, "out")?;
    let mut file = AtomicFile::create(out, access)?;
    let own = DeviceData { read: &read, users: &users };
    let of_rows = RowWarnings::new(false, args.json);
    let bytes = member.update_telling(own, request, running, &mut ledger, &mut |text| of_rows.warn(text))?;
    file.write_all(&bytes).map_err(|error| file.failed(&error))?;
    file.commit()?;
    let made = Made {
        device: *device,
        round: *round,
        run: plan.run_number(),
        unit: plan.unit,
        bytes: bytes.len(),
        rounds_charged: ledger.charged(),
        rounds: plan.rounds,
        out: out.display().to_string(),
    };
    if args.json {
        return answer_json(&made);
    }
    answer(&format!(
        "device {device}, round {round}: {} bytes, {} of {} rounds are charged\nwrote {}",
        made.bytes, made.rounds_charged, made.rounds, made.out
    ))
}
