//! `damper federation simulate`: runs all rounds of all devices in one process.

use super::common::{check_model, model_of_plan, read_device, read_plan, read_users};
use crate::cli::args::data::DataArgs;
use crate::cli::args::machine::MachineArgs;
use crate::cli::args::model::ModelArgs;
use crate::cli::{Failure, answer};
use clap::Args;
use damper_federated::{Absent, DeviceData, Machine, ServerModel, simulate};
use damper_onnx as onnx;
use damper_runtime::open;
use damper_train::check_file_fits;
use damper_train::files::{Access, AtomicFile};
use damper_train::gradients::GradientOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Placeholder of a device's number in --data and --users.
const DEVICE: &str = "{device}";

/// Trains a model through all rounds in one process, which has all devices' data: a simulation, with the bits of the
/// federation.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(super) struct SimulateArgs {
    /// The plan of the federation, a simulation's. In --data and --users, {device} stands for a device's number
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model before the first round
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The model after the last round
    #[arg(short, long, value_name = "OUT.onnx")]
    out: PathBuf,
    /// The seed of the noise
    #[arg(long, value_name = "SEED")]
    seed: u64,
    /// With --unit user: a text file with the user of each training row [default: all rows of a device belong to one
    /// user]
    #[arg(long, value_name = "FILE")]
    users: Option<String>,
    /// A device that is absent in a round (may be repeated)
    #[arg(long, value_name = "ROUND:DEVICE", value_parser = absent)]
    absent: Vec<Absent>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    options: ModelArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

fn absent(text: &str) -> Result<Absent, String> {
    let parsed = text
        .split_once(':')
        .and_then(|(round, device)| Some(Absent { round: round.parse().ok()?, device: device.parse().ok()? }));
    parsed.ok_or_else(|| "give ROUND:DEVICE, two whole numbers".into())
}

pub(super) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let SimulateArgs { model, out, data, machine, .. } = args;
    let plan = read_plan(&args.plan)?;
    let options = &model_of_plan(&plan, &args.options)?;
    check_model(&plan, model)?;
    let server = ServerModel::read(model, options.of_file(), &options.graph_options(), &options.derive_options());
    let mut server = server.map_err(|error| Failure::in_model(model, error))?;
    let mut devices = vec![];
    for number in 1..=plan.devices {
        let own = |text: &str| text.replace(DEVICE, &number.to_string());
        let read = read_device(&plan, model, data, &own(data.source()), options)?;
        let file = args.users.as_deref().map(own);
        let users = read_users(file.as_deref().map(Path::new), &read, &plan)?;
        devices.push((read, users));
    }
    let devices: Vec<_> = devices.iter().map(|(read, users)| DeviceData { read, users }).collect();
    let backend = open(machine.backend()?)?;
    let settings =
        GradientOptions { physical_batch: machine.physical_batch, memory: machine.memory(), workers: machine.workers };
    let running = Machine { backend: backend.as_ref(), options: &settings };
    // Detect an unwritable file before the rounds.
    let model = onnx::encode(&server.to_model(&plan)?);
    check_file_fits(out, model.len() as u64, "out")?;
    let mut file = AtomicFile::create(out, Access::Public)?;
    simulate(&plan, &mut server, &devices, &args.absent, args.seed, running)?;
    file.write_all(&onnx::encode(&server.to_model(&plan)?)).map_err(|error| file.failed(&error))?;
    file.commit()?;
    answer(&format!("{} rounds of {} devices, a simulation\nwrote {}", plan.rounds, plan.devices, out.display()))
}
