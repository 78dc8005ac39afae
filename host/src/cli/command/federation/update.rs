//! `damper federation update`: runs a device's round on its own data.

use super::common::{check_model, model_of_plan, read_device, read_params, read_plan, read_users};
use super::release::{Release, Watch};
use crate::cli::args::data::DataArgs;
use crate::cli::args::machine::MachineArgs;
use crate::cli::args::model::ModelArgs;
use crate::cli::session::caller;
use crate::cli::session::row_warnings::RowWarnings;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_federated::{Device, DeviceData, Listening, Machine, Request, Users, charge_budget};
use damper_federation::{
    FederationError, FederationPlan, KeptUpdate, MemberKey, RoundLedger, Unit, check_approved, has_joined, join,
    request_digest,
};
use damper_runtime::open;
use damper_train::ModelAndData;
use damper_train::check_file_fits;
use damper_train::gradients::GradientOptions;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

const AFTER_HELP: &str = "\
The round is charged to --ledger, on the disk, before a unit is drawn, and the
update is kept there. Asked again for the same round and --params, the command
writes the update that was kept; another request for the round gets none. The
noise has a fresh key, which is nowhere kept. sent.log in --ledger lists what left.";

/// Makes a device's update: clips the contribution of each unit that it draws, adds them on the grid, and adds its
/// noise.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct UpdateArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model of the plan, this device's own file in all rounds
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The trained parameters of the round, from the server: float32 words, little-endian [default in round 0: the
    /// model's]
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
    /// This device's folder with the charged rounds, made if it is not there
    #[arg(long, value_name = "DIR")]
    ledger: PathBuf,
    /// This device's key, if the plan has members. Use damper federation key to make it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Fails if the plan's epsilon is larger for any party
    #[arg(long, value_name = "E")]
    max_epsilon: Option<f64>,
    /// With --max-epsilon: fails if the plan's delta is larger
    #[arg(long, value_name = "D", default_value_t = 1e-5, requires = "max_epsilon")]
    max_delta: f64,
    /// The budget of this device's data, to which the plan is charged once, before its first round
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// With --unit user: a text file with the user of each training row, one name per line [default: all rows belong to
    /// one user]
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

#[derive(Clone, Serialize)]
struct Made {
    device: u32,
    round: u32,
    run: u64,
    unit: Unit,
    bytes: usize,
    rounds_charged: u32,
    rounds: u32,
    /// True if a stored update was sent again.
    resent: bool,
    out: String,
}

/// Fraction of a fixed delay after which an unfinished update is replaced by noise alone. The rest is for the disk.
const READY: f64 = 0.9;

/// Deadlines of an answer with a fixed delay.
#[derive(Clone, Copy)]
struct Moments {
    /// Time at which an unfinished update is replaced by noise alone.
    late: Instant,
    /// Time at which the command ends.
    reply: Instant,
}

pub(super) fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let plan = read_plan(&args.plan)?;
    let moments = plan.reply_seconds.map(|seconds| {
        let delay = Duration::from_secs(seconds.into());
        Moments { late: begun + delay.mul_f64(READY), reply: begun + delay }
    });
    let watch = Watch::default();
    let made = update(args, &plan, moments, &watch);
    watch.ended();
    // Errors wait as well, and so does the file of the update.
    if let Some(left) = moments.and_then(|moments| moments.reply.checked_duration_since(Instant::now())) {
        thread::sleep(left);
    }
    let (made, release) = made?;
    release.send()?;
    show(&made, args.json)
}

fn show(made: &Made, json: bool) -> Result<(), Failure> {
    if json {
        return answer_json(made);
    }
    let again = if made.resent { ", sent again" } else { "" };
    answer(&format!(
        "device {}, round {}: {} bytes{again}, {} of {} rounds are charged\nwrote {}",
        made.device, made.round, made.bytes, made.rounds_charged, made.rounds, made.out
    ))
}

/// Returns the key that signs the device's updates, if the plan has members.
fn key(args: &UpdateArgs, plan: &FederationPlan) -> Result<Option<MemberKey>, Failure> {
    match (plan.member(args.device.into()), &args.key) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::usage("`key`: the plan has no members, so nothing is signed; leave it out")),
        (Some(_), None) => Err(Failure::usage("`key`: the plan has members; give the key of this device")),
        (Some(member), Some(file)) => {
            let key = MemberKey::read(file)?;
            if key.public() != member.public_key {
                let problem = format!("not the key of device {}; give its own key, or its own number", args.device);
                return Err(Failure::in_file(file, problem));
            }
            Ok(Some(key))
        }
    }
}

/// Fails if the plan costs more than the device's owner allows, for any party.
fn check_cap(plan: &FederationPlan, args: &UpdateArgs) -> Result<(), Failure> {
    let Some(most) = args.max_epsilon else { return Ok(()) };
    // ε has no meaning without δ, and the plan sets both. A cap that is NaN allows nothing.
    let is_small = plan.delta <= args.max_delta;
    if !is_small {
        return Err(FederationError::LargeDelta { delta: plan.delta, most: args.max_delta }.into());
    }
    let epsilon = plan.epsilon(plan.rounds)?;
    let largest = epsilon.server.unwrap_or(f64::INFINITY).max(epsilon.participant).max(epsilon.outsider);
    if largest <= most { Ok(()) } else { Err(FederationError::AboveCap { epsilon: largest, most }.into()) }
}

/// Fails if the file is among those that the device stores.
fn check_outside(out: &Path, folder: &Path) -> Result<(), Failure> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), fs::canonicalize(folder)) {
        (Ok(parent), Ok(folder)) if parent == folder => Err(Failure::usage(format!(
            "`out` {}: lies among the files that the device keeps; name another place",
            out.display()
        ))),
        _ => Ok(()),
    }
}

fn charge_own_budget(args: &UpdateArgs, plan: &FederationPlan, ledger: &RoundLedger) -> Result<(), Failure> {
    match &args.budget {
        Some(file) => Ok(charge_budget(file, &args.ledger, ledger, plan)?),
        None => Ok(()),
    }
}

/// Computes the device's answer, which is stored when this returns and may be sent.
fn update(
    args: &UpdateArgs,
    plan: &FederationPlan,
    moments: Option<Moments>,
    watch: &Watch,
) -> Result<(Made, Release), Failure> {
    let UpdateArgs { model, out, device, round, machine, .. } = args;
    let options = &model_of_plan(plan, &args.options)?;
    let member = Device::new(plan, *device, args.seed)?;
    let key = key(args, plan)?;
    check_model(plan, model)?;
    let params = args.params.as_deref().map(read_params).transpose()?;
    let request = Request { round: *round, params: params.as_deref() };
    request.check(plan)?;
    let digest = request_digest(plan, *round, request.params);
    let mut ledger = RoundLedger::of_device(&args.ledger, plan, *device)?;
    check_outside(out, &args.ledger)?;
    // Detect an unwritable file before the round is charged.
    check_file_fits(out, 4 * u64::from(plan.parameters) + 4096, "out")?;
    let release = Release::new(plan, (*round, digest), *device, key, &args.ledger, out)?;
    let mut made = Made {
        device: *device,
        round: *round,
        run: plan.run_number(),
        unit: plan.unit,
        bytes: 0,
        rounds_charged: ledger.charged(),
        rounds: plan.rounds,
        resent: false,
        out: out.display().to_string(),
    };
    if let Some(kept) = KeptUpdate::read(&args.ledger)?.and_then(|kept| kept.for_request(&digest)) {
        made.bytes = kept.len();
        made.resent = true;
        release.keep_again(kept)?;
        return Ok((made, release));
    }
    // An already charged round is an error before data is read.
    ledger.at(*round)?;
    check_cap(plan, args)?;
    check_approved(&args.ledger, plan)?;
    let backend = open(machine.backend()?)?;
    let settings =
        GradientOptions { physical_batch: machine.physical_batch, memory: machine.memory(), workers: machine.workers };
    let running = Machine { backend: backend.as_ref(), options: &settings };
    let charged_before = ledger.charged();
    let mut spare = |noise_alone: Vec<u8>| {
        if let Some(Moments { late, reply }) = moments {
            let made = Made { rounds_charged: charged_before + 1, ..made.clone() };
            let (json, ends) = (args.json, !caller::is_active());
            let sending = release.clone();
            watch.begin(release.clone(), noise_alone, (late, reply), move |kept| {
                // The round's own thread takes as long as its data. The process ends without it.
                if ends {
                    let sent = kept.and_then(|bytes| sending.send().map(|()| bytes));
                    let shown = sent.and_then(|bytes| show(&Made { bytes, ..made }, json));
                    process::exit(shown.map_or_else(|failure| i32::from(failure.say(json)), |()| 0));
                }
            });
        }
    };
    let asked = Asked { args, plan, options, member, request };
    let (what, bytes) = asked.charged(running, &mut ledger, moments.is_some(), &mut spare)?;
    made.rounds_charged = ledger.charged();
    // `None`: noise alone was first, which has the same number of bytes.
    made.bytes = release.keep(what, &bytes)?.unwrap_or(bytes.len());
    Ok((made, release))
}

/// A requested update that passed all checks before data is read.
struct Asked<'a> {
    args: &'a UpdateArgs,
    plan: &'a FederationPlan,
    options: &'a ModelArgs,
    member: Device<'a>,
    request: Request<'a>,
}

impl Asked<'_> {
    /// Charges the round, and returns the update's bytes with their kind. `spare` receives an update of noise alone for
    /// a reply at a fixed time.
    fn charged(
        &self,
        running: Machine<'_>,
        ledger: &mut RoundLedger,
        is_timed: bool,
        spare: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(&'static str, Vec<u8>), Failure> {
        let Self { args, plan, member, request, .. } = *self;
        let of_rows = RowWarnings::new(false, args.json);
        let mut say = |text: &str| of_rows.warn(text);
        // A device that has charged a round has joined, even if the note is missing.
        if ledger.charged() == 0 && !has_joined(&args.ledger, plan)? {
            let (read, users) = self.read()?;
            join(&args.ledger, plan)?;
            charge_own_budget(args, plan, ledger)?;
            let mut listening = Listening { rows: Some(&mut say), noise_alone: Some(spare) };
            let data = DeviceData { read: &read, users: &users };
            return Ok(("update", member.update_telling(data, request, running, ledger, &mut listening)?));
        }
        // It answers, and is charged before it reads. Invalid or slow rows concern only its owner.
        charge_own_budget(args, plan, ledger)?;
        let charged = member.charge(request, ledger)?;
        if is_timed {
            spare(charged.noise_alone()?);
        }
        let mut listening = Listening { rows: Some(&mut say), noise_alone: None };
        match self.read() {
            Ok((read, users)) => {
                let data = DeviceData { read: &read, users: &users };
                Ok(("update", charged.update(data, request, running, &mut listening)?))
            }
            Err(failure) => {
                of_rows.warn(&format!("the update is noise alone: {}", failure.message));
                Ok(("noise alone: the data does not fit", charged.noise_alone()?))
            }
        }
    }

    fn read(&self) -> Result<(ModelAndData, Users), Failure> {
        let UpdateArgs { model, data, users, .. } = self.args;
        let read = read_device(self.plan, model, data, data.source(), self.options)?;
        let users = read_users(users.as_deref(), &read, self.plan)?;
        Ok((read, users))
    }
}
