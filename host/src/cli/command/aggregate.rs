//! `damper aggregate`: adds the updates of a federation's devices.

use crate::cli::command::federation::{read_params, read_plan};
use crate::cli::{Failure, answer, answer_json, warn};
use clap::Args;
use damper_accounting::upward;
use damper_federated::Request;
use damper_federation::aggregate::Aggregate;
use damper_federation::{
    Cohort, FederationEpsilon, FederationError, FederationPlan, RoundLedger, Unit, request_digest,
};
use damper_train::check_file_fits;
use damper_train::files::{Access, AtomicFile};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Each file is what one device emitted in one round: a clipped sum of its
samples' gradients with the device's own noise, as integers on a grid. The
sum is a file of the same format with integers of eight bytes. An integer is
worth clip / 2^bits; divide by devices x expected batch for the mean.

With --federation the updates must be of its plan, and signed if it has members.
What does not fit is left out, and named: a device that lies about its configuration
cannot stop the others. The devices of the sum are fixed and the round is charged, on
the disk in --ledger, before the sum is written. Called again after a stop, the
command adds the same updates; it never adds others. With fewer devices than the
smallest cohort nothing is charged: ask the others again.

Examples:
  damper aggregate round-7/*.upd --out round-7.sum
  damper aggregate round-7/*.upd --federation federation.json --round 7 \\
    --ledger server --out round-7.sum";

/// Adds the updates of a federation's devices: of one round and one configuration, each device once.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct AggregateArgs {
    /// Updates that devices emitted
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The sum
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The plan of the federation: updates that do not fit it are left out and named, and the others are added
    #[arg(long, value_name = "FILE", requires_all = ["round", "ledger"])]
    federation: Option<PathBuf>,
    /// With --federation: the round, counted from 0
    #[arg(long, value_name = "T", requires = "federation")]
    round: Option<u32>,
    /// With --federation, if the plan has members: the trained parameters in the round's request [default: none, as in
    /// round 0]
    #[arg(long, value_name = "FILE", requires = "federation")]
    params: Option<PathBuf>,
    /// With --federation: the server's folder with the charged rounds, made if it is not there
    #[arg(long, value_name = "DIR", requires = "federation")]
    ledger: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// A file that is not in the sum.
#[derive(Serialize)]
struct Refused {
    file: String,
    reason: String,
}

/// ε of a federation's rounds, including this round.
#[derive(Serialize)]
struct Cost {
    /// Unit of the plan.
    unit: Unit,
    /// ε for each party.
    epsilon: FederationEpsilon,
    delta: f64,
    rounds_charged: u32,
    rounds: u32,
}

#[derive(Serialize)]
struct Added {
    devices: u32,
    run: u64,
    round: u32,
    parameters: u32,
    clip: f32,
    grid_bits: u32,
    /// Noise multiplier of each device.
    noise_multiplier: f64,
    /// Expected batch of each device.
    expected_batch: u32,
    out: String,
    #[serde(flatten)]
    cost: Option<Cost>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
}

/// A round of a plan, on the server.
struct Round<'a> {
    plan: &'a FederationPlan,
    number: u32,
    folder: &'a Path,
    ledger: RoundLedger,
    /// The cohort, if an earlier process fixed it.
    fixed: Option<Cohort>,
}

impl<'a> Round<'a> {
    fn open(plan: &'a FederationPlan, number: u32, folder: &'a Path) -> Result<Self, Failure> {
        let ledger = RoundLedger::open(folder, plan)?;
        let fixed = Cohort::read(folder, number)?;
        if fixed.is_none() {
            // A charged round has a cohort.
            ledger.at(number)?;
        }
        Ok(Self { plan, number, folder, ledger, fixed })
    }

    /// Fixes `cohort`, charges the round, and returns the privacy cost of the rounds so far.
    fn charge(mut self, cohort: &Cohort) -> Result<Cost, Failure> {
        match &self.fixed {
            Some(fixed) => fixed.check(cohort)?,
            None => cohort.fix(self.folder)?,
        }
        if self.number >= self.ledger.next_round() {
            self.ledger.charge(self.number)?;
        }
        let plan = self.plan;
        Ok(Cost {
            unit: plan.unit,
            epsilon: plan.epsilon(self.ledger.charged())?,
            delta: plan.delta,
            rounds_charged: self.ledger.charged(),
            rounds: plan.rounds,
        })
    }
}

pub(in crate::cli) fn run(args: &AggregateArgs) -> Result<(), Failure> {
    if args.files.contains(&args.out) {
        return Err(Failure::usage(format!("`out` {}: an update to be added; name another file", args.out.display())));
    }
    let plan = args.federation.as_deref().map(|file| Ok::<_, Failure>((file, read_plan(file)?))).transpose()?;
    // Detect an unwritable file before the round is charged.
    let bytes = plan.as_ref().map_or(0, |(_, plan)| 8 * u64::from(plan.parameters));
    check_file_fits(&args.out, bytes, "out")?;
    let (mut sum, mut round, mut cohort) = (Aggregate::default(), None, Cohort::new(0));
    if let (Some((file, plan)), Some(number), Some(folder)) = (&plan, args.round, &args.ledger) {
        let params = args.params.as_deref().map(read_params).transpose()?;
        // Without signatures, no record shows the request to a device.
        if params.is_some() || !plan.members.is_empty() {
            Request { round: number, params: params.as_deref() }.check(plan)?;
        }
        let request = request_digest(plan, number, params.as_deref());
        round = Some(Round::open(plan, number, folder)?);
        cohort = Cohort::new(number);
        sum = Aggregate::of_plan(&file.display().to_string(), plan, number, request);
    }
    // After the ledger: opening it removes leftover files from its folder, which may contain this file.
    let mut out = AtomicFile::create(&args.out, Access::Public)?;
    let mut refused = vec![];
    for file in &args.files {
        match add(file, &mut sum, &mut cohort, round.as_ref()) {
            Ok(()) => {}
            Err(failure) if plan.is_some() => {
                refused.push(Refused { file: file.display().to_string(), reason: failure.message });
            }
            Err(failure) => return Err(failure),
        }
    }
    if !args.json {
        refused.iter().for_each(|refused| warn(&refused.reason));
    }
    let accepted = sum.header().map_or(0, |header| header.devices);
    if let Some((_, plan)) = &plan
        && accepted < plan.smallest_cohort
        && round.as_ref().is_some_and(|round| round.fixed.is_none())
    {
        let reasons: Vec<&str> = refused.iter().map(|refused| refused.reason.as_str()).collect();
        let small = FederationError::SmallCohort { accepted, smallest: plan.smallest_cohort };
        return Err(Failure::new(match reasons.join("; ") {
            none if none.is_empty() => format!("{small}; ask the other devices again"),
            reasons => format!("{small}: {reasons}"),
        }));
    }
    let cost = round.map(|round| round.charge(&cohort)).transpose()?;
    let (Some(header), Some(bytes)) = (sum.header(), sum.to_bytes()) else {
        return Err(Failure::new("no updates: name at least one FILE"));
    };
    out.write_all(&bytes).map_err(|error| Failure::of_file(&args.out, error))?;
    out.commit()?;
    let found = Added {
        devices: header.devices,
        run: header.run,
        round: header.round,
        parameters: header.dim,
        clip: header.clip,
        grid_bits: header.grid_bits,
        noise_multiplier: header.multiplier(),
        expected_batch: header.expected_batch,
        out: args.out.display().to_string(),
        cost,
        refused,
    };
    if args.json { answer_json(&found) } else { answer(&text(&found)) }
}

/// Adds the update in `file` to the sum and to the round's cohort.
fn add(file: &Path, sum: &mut Aggregate, cohort: &mut Cohort, round: Option<&Round>) -> Result<(), Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::of_file(file, error))?;
    let fixed = round.and_then(|round| round.fixed.as_ref());
    if fixed.is_some_and(|fixed| !fixed.has(&bytes)) {
        return Err(Failure::in_file(file, "not in the round's cohort, which is fixed; it is too late for it"));
    }
    let device = sum.add(&file.display().to_string(), &bytes)?;
    cohort.add(device, &bytes);
    Ok(())
}

/// Formats the result.
fn text(found: &Added) -> String {
    let cost = found.cost.as_ref().map_or(String::new(), |cost| {
        format!(
            "\nepsilon {} of each {} at delta {:e} after {} of {} rounds for an outsider, {} for a participant, {} for the server",
            upward(cost.epsilon.outsider),
            cost.unit,
            cost.delta,
            cost.rounds_charged,
            cost.rounds,
            upward(cost.epsilon.participant),
            cost.epsilon.server.map_or_else(|| "none".to_owned(), upward),
        )
    });
    format!(
        "run {}, round {}: {} devices, {} parameters, clip {}, noise multiplier {} on each device{cost}\nwrote {}",
        found.run, found.round, found.devices, found.parameters, found.clip, found.noise_multiplier, found.out
    )
}
