//! `damper epsilon`: the privacy cost of a noise multiplier, or of a run.

use crate::cli::args::text::FromText;
use crate::cli::command::federation::{Cost, cost_text, read_plan};
use crate::cli::{Failure, answer, answer_json};
use clap::{Args, ValueEnum};
use damper_accounting::pld::Neighbours;
use damper_accounting::{Accountant, AccountingError, EpsilonQuery, Recorded, RunKind, upward};
use damper_budget::PLAN;
use damper_federation::Unit;
use damper_report::{SIMULATION, Unfinished, is_not_private, planned, recorded};
use damper_train::LEDGER;
use serde::Serialize;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example: MNIST, 60,000 samples, batches of 256, 15 epochs:
  damper epsilon --noise-multiplier 1.1 --sampling-rate 0.0042667 \\
    --steps 3516 --delta 1e-5
The same of a run that damper train has made, from its recorded draws:
  damper epsilon DIR
Its delta at another epsilon:
  damper epsilon DIR --epsilon 2
Epsilon of five samples of one person, all there or none of them:
  damper epsilon DIR --group 5
Of the rounds of a federation, whose plan says which unit is protected:
  damper epsilon federation.json

Of a run that was killed or failed, it gives epsilon of the steps that the ledger
in DIR/checkpoint counts as paid: an upper bound. A run that is not private
(damper train --not-private) has none: the answer is an error.";

/// File in a run's folder that records its draws.
pub(in crate::cli) const EVENTS: &str = "events.json";

/// Computes the epsilon of a noise multiplier, or of a run's recorded draws.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct EpsilonArgs {
    /// A run's folder: epsilon is recomputed from its events.json alone, or from plan and ledger if the run is
    /// unfinished. Or the plan of a federation
    #[arg(value_name = "DIR|FEDERATION.json", conflicts_with_all = ["noise_multiplier", "sampling_rate", "steps", "count_noise_multiplier"])]
    folder: Option<PathBuf>,
    /// With DIR: epsilon of all planned steps, an upper bound if the ledger is damaged
    #[arg(long, requires = "folder")]
    planned: bool,
    /// Standard deviation of the noise, in units of the clip
    #[arg(long, value_name = "S", required_unless_present = "folder")]
    noise_multiplier: Option<f64>,
    /// Probability of each sample in each draw: expected batch size / number of samples, above 0 and at most 1
    #[arg(long, value_name = "Q", required_unless_present = "folder")]
    sampling_rate: Option<f64>,
    /// Number of draws: epochs * samples / batch size
    #[arg(long, value_name = "T", required_unless_present = "folder")]
    steps: Option<u64>,
    /// Delta, above 0 and below 1, well below 1 / number of samples [default with DIR: the run's]
    #[arg(long, value_name = "D", required_unless_present_any = ["folder", "epsilon"])]
    delta: Option<f64>,
    /// Finds the delta of this epsilon instead
    #[arg(long, value_name = "E", conflicts_with_all = ["delta", "neighbours", "count_noise_multiplier"])]
    epsilon: Option<f64>,
    /// Difference of neighbouring data sets: `add-or-remove`, a sample is present or not. `replace`, a sample is
    /// replaced by another, which moves a release by up to twice the clip
    #[arg(long, value_name = "NAME", default_value = "add-or-remove")]
    neighbours: NeighboursArg,
    /// Epsilon of K units of a single person, document or device, all present or all absent. It is not K times epsilon
    #[arg(long, value_name = "K")]
    group: Option<NonZeroU32>,
    /// The clipped unit, which epsilon protects: `sample`, one sample's gradient, or `user`, all that a user's samples
    /// contribute to a step or round
    #[arg(long, value_name = "sample|user", default_value = "sample")]
    unit: UnitArg,
    /// Standard deviation of the noise on one-hot counts that each step releases with its gradient
    #[arg(long, value_name = "H")]
    count_noise_multiplier: Option<f64>,
    /// Accountant: tight by privacy loss distributions (`pld`, the default), or Rényi divergences (`rdp`) [default with
    /// DIR: the run's]
    #[arg(long, value_name = "NAME", value_parser = accountant)]
    accountant: Option<Accountant>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum NeighboursArg {
    AddOrRemove,
    Replace,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum UnitArg {
    Sample,
    User,
}

/// Neighbouring relation if users are protected, instead of the accountant's sentence about samples.
const USERS: &str = "neighbours: one user with all of its samples, there or not; all that they contribute to a step is clipped once, as one vector";
const REPLACED_USERS: &str = "neighbours: one user with all of its samples in the place of another, drawn by the same coin; the sum moves by up to twice the clip";
const GROUP_OF_USERS: &str = "neighbours: all users of the group with all of their samples, or none of them, each drawn by a coin of its own and clipped as one vector";
const REPLACED_GROUP_OF_USERS: &str =
    "neighbours: all users of the group in the places of as many others; k changes of one user each";
const USER_SAMPLING: &str = "sampling: each step an independent coin for each user at exactly this rate; the released mean divides by a constant";

impl From<NeighboursArg> for Neighbours {
    fn from(arg: NeighboursArg) -> Self {
        match arg {
            NeighboursArg::AddOrRemove => Self::AddOrRemove,
            NeighboursArg::Replace => Self::Replace,
        }
    }
}

/// Privacy cost of a run's recorded draws.
#[derive(Serialize)]
struct OfRun {
    epsilon: f64,
    delta: f64,
    /// The smallest of all draws.
    noise_multiplier: f64,
    /// The largest of all draws.
    sampling_rate: f64,
    steps: u64,
    accountant: Accountant,
    /// `simulation` if the run's noise is known and nothing is private. `None` if the record does not state it.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunKind>,
    /// Rényi order that gave epsilon. `None` if privacy loss distributions gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<f64>,
    neighbours: Neighbours,
    /// Number of samples that are all present or all absent. `None` for one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    /// Distribution of the number of candidates, if this is a private search. The events are then those of one
    /// candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<String>,
    /// Noise multiplier of the release of the features' means and deviations, if there was such a release. Epsilon
    /// covers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    normalize_noise_multiplier: Option<f64>,
    /// Noise multiplier of the release of the number of samples without a finite gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    non_finite_noise_multiplier: Option<f64>,
    /// True if the run has finished. False if only its plan is known.
    finished: bool,
    /// Number of steps of the whole plan, if the run is unfinished. `steps` is then the number of charged steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_steps: Option<u32>,
}

/// Events of a run's folder.
struct Found {
    file: PathBuf,
    recorded: Recorded,
    finished: bool,
    planned_steps: Option<u32>,
    /// Last sentence of the answer.
    note: String,
}

impl Found {
    fn of(folder: &Path, whole_plan: bool) -> Result<Self, Failure> {
        let checkpoint = folder.join("checkpoint");
        let simulation = |run: &str| match run {
            "private" => "",
            _ => "\nNO GUARANTEE      the run is a simulation: its noise can be recomputed",
        };
        if whole_plan {
            let plan = planned(folder)?
                .ok_or_else(|| Failure::in_file(&checkpoint.join(PLAN), "missing; leave out `planned`"))?;
            return Ok(Self {
                note: format!(
                    "\nplanned           all {} steps, whether paid or not: an upper bound{}",
                    plan.steps,
                    simulation(&plan.run)
                ),
                file: checkpoint.join(PLAN),
                finished: false,
                planned_steps: Some(plan.steps),
                recorded: plan.events,
            });
        }
        let events = folder.join(EVENTS);
        // A later read reports why events.json is inaccessible.
        let missing = fs::symlink_metadata(&events).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        match if missing { Unfinished::read(folder)? } else { None } {
            None => Ok(Self {
                recorded: recorded(folder)?,
                file: events,
                finished: true,
                planned_steps: None,
                note: ", and nothing else".into(),
            }),
            Some(unfinished) => Ok(Self {
                note: format!(
                    " and {LEDGER}\nunfinished        {} of {} planned steps are paid; the figure counts these, an upper bound{}",
                    unfinished.steps,
                    unfinished.planned_steps,
                    simulation(&unfinished.run)
                ),
                file: checkpoint.join(PLAN),
                finished: false,
                planned_steps: Some(unfinished.planned_steps),
                recorded: unfinished.events,
            }),
        }
    }
}

/// Parses the name of an accountant. The error lists the names.
pub(in crate::cli) fn accountant(name: &str) -> Result<Accountant, String> {
    match name {
        "rdp" => Ok(Accountant::Rdp),
        "pld" => Ok(Accountant::Pld),
        _ => Err("unknown; this version has: pld, rdp".into()),
    }
}

pub(in crate::cli) fn run(args: &EpsilonArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.folder {
        return if folder.is_file() { of_federation(args, folder) } else { of_run(args, folder) };
    }
    let (Some(noise_multiplier), Some(sampling_rate), Some(steps)) =
        (args.noise_multiplier, args.sampling_rate, args.steps)
    else {
        return Err(Failure::new("give a run's folder, or `noise_multiplier`, `sampling_rate`, `steps` and `delta`"));
    };
    let accountant = args.accountant.unwrap_or_default();
    let group = args.group.filter(|size| *size > NonZeroU32::MIN);
    let query = |delta| EpsilonQuery {
        accountant,
        noise_multiplier,
        sampling_rate,
        steps,
        delta,
        neighbours: args.neighbours.into(),
        count_noise_multiplier: args.count_noise_multiplier,
        group,
    };
    let delta = match (args.delta, args.epsilon) {
        (Some(delta), _) => delta,
        (None, Some(epsilon)) => below_one(query(0.5).delta_at(epsilon)?, epsilon)?,
        (None, None) => return Err(Failure::new("give `delta`, or `epsilon` to find it")),
    };
    let mut found = query(delta).answer()?;
    // δ holds at the given ε. The computed ε at that δ may be a little smaller.
    found.epsilon = args.epsilon.unwrap_or(found.epsilon);
    if args.unit == UnitArg::User {
        let neighbours = match (args.neighbours, group) {
            (NeighboursArg::AddOrRemove, None) => USERS,
            (NeighboursArg::Replace, None) => REPLACED_USERS,
            (NeighboursArg::AddOrRemove, Some(_)) => GROUP_OF_USERS,
            (NeighboursArg::Replace, Some(_)) => REPLACED_GROUP_OF_USERS,
        };
        for (at, assumption) in [neighbours, USER_SAMPLING].into_iter().enumerate() {
            if let Some(place) = found.assumptions.get_mut(at) {
                *place = assumption;
            }
        }
    }
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}

/// Returns δ, or an error if it is not below one.
fn below_one(delta: f64, epsilon: f64) -> Result<f64, Failure> {
    if delta < 1.0 {
        return Ok(delta);
    }
    Err(Failure::usage(format!("`epsilon` {epsilon}: no delta below 1 is found that it holds at; raise it")))
}

/// Privacy cost of a federation's rounds, in JSON.
#[derive(Serialize)]
struct OfFederation {
    #[serde(flatten)]
    cost: Cost,
    smallest_cohort: u32,
}

fn of_federation(args: &EpsilonArgs, file: &Path) -> Result<(), Failure> {
    let refused = [
        ("`planned`", args.planned),
        ("`delta`", args.delta.is_some()),
        ("`epsilon`", args.epsilon.is_some()),
        ("`neighbours`", args.neighbours != NeighboursArg::AddOrRemove),
        ("`accountant` rdp", args.accountant == Some(Accountant::Rdp)),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!("{flag}: a federation's plan fixes it; leave it out")));
    }
    let plan = read_plan(file)?;
    if args.unit == UnitArg::User && plan.unit == Unit::Sample {
        return Err(Failure::usage(
            "`unit` user: the plan protects samples; leave it out, or make a plan with `unit` user",
        ));
    }
    let cost = Cost::of_group(&plan, args.group)?;
    if !args.json {
        return answer(&cost_text(&plan, &cost));
    }
    answer_json(&OfFederation { cost, smallest_cohort: plan.smallest_cohort })
}

fn of_run(args: &EpsilonArgs, folder: &Path) -> Result<(), Failure> {
    if args.unit == UnitArg::User {
        return Err(Failure::usage(
            "`unit` user: damper train clips each sample, so a run protects samples; leave it out",
        ));
    }
    if is_not_private(folder)? {
        return Err(Failure::in_file(
            folder,
            "not private: the run was trained without clipping and noise (`not_private`), so no epsilon holds",
        ));
    }
    let Found { file, recorded, finished, planned_steps, note } = Found::of(folder, args.planned)?;
    let accountant = args.accountant.unwrap_or(recorded.accountant);
    let (neighbours, parts) = (Neighbours::from(args.neighbours), recorded.parts());
    let in_file = |error: AccountingError| Failure::of_file(&file, error);
    let group = args.group.filter(|size| *size > NonZeroU32::MIN);
    if group.is_some() && accountant == Accountant::Rdp && args.accountant.is_some() {
        return Err(in_file(AccountingError::GroupByOrders));
    }
    let delta = match (args.epsilon, group) {
        (Some(epsilon), Some(size)) => {
            below_one(recorded.delta_of_group(size, neighbours, epsilon).map_err(in_file)?, epsilon)?
        }
        (Some(epsilon), None) => below_one(recorded.delta(accountant, epsilon).map_err(in_file)?, epsilon)?,
        (None, _) => args.delta.unwrap_or(recorded.delta),
    };
    // The accountant of a group is always privacy loss distributions.
    let accountant = if group.is_some() { Accountant::Pld } else { accountant };
    let priced = match (neighbours, accountant) {
        _ if group.is_some() => recorded.epsilon_of_group(group.unwrap_or(NonZeroU32::MIN), neighbours, delta),
        (Neighbours::AddOrRemove, _) => recorded.epsilon(accountant, delta),
        (Neighbours::Replace, Accountant::Pld) => recorded.epsilon_of_replaced(delta),
        (Neighbours::Replace, Accountant::Rdp) => Err(AccountingError::Replaced),
    };
    let priced = priced.map_err(in_file)?;
    let found = OfRun {
        epsilon: args.epsilon.unwrap_or(priced.epsilon),
        delta,
        noise_multiplier: recorded.smallest_multiplier(),
        sampling_rate: recorded.largest_rate().as_f64(),
        steps: recorded.steps(),
        accountant,
        run: recorded.run,
        order: priced.order,
        neighbours,
        group: group.map(NonZeroU32::get),
        search: parts.search.map(|search| search.candidates.to_string()),
        normalize_noise_multiplier: parts.normalize,
        non_finite_noise_multiplier: parts.non_finite,
        finished,
        planned_steps,
    };
    if args.json {
        return answer_json(&found);
    }
    answer(&text(&found, recorded.event_name(), &format!("{}{note}", file.display())))
}

/// Formats the cost, with the event's name and the source file.
fn text(found: &OfRun, event: &str, from: &str) -> String {
    format!(
        "epsilon           {}{}{}{}{}\ndelta             {:e}\nnoise multiplier  {} (smallest of {event})\nsampling rate     {} \
         (largest of {event})\nsteps             {}\naccountant        {}\nneighbours        {}\nfrom              {from}",
        upward(found.epsilon),
        if found.run == Some(RunKind::Simulation) { SIMULATION } else { "" },
        found.search.as_ref().map_or(String::new(), |count| format!(
            "\nsearch            the best of {count} candidates, each with the steps below"
        )),
        found.normalize_noise_multiplier.map_or(String::new(), |multiplier| format!(
            "\nbefore the steps  one release of the features' means and deviations, noise multiplier {multiplier}"
        )),
        found.non_finite_noise_multiplier.map_or(String::new(), |multiplier| format!(
            "\nbefore the steps  one release of the number of samples without a finite gradient, noise multiplier {multiplier}"
        )),
        found.delta,
        found.noise_multiplier,
        found.sampling_rate,
        found.steps,
        match (found.accountant, found.order) {
            (Accountant::Pld, Some(order)) => format!("pld (smaller: rdp at order {order})"),
            (accountant, _) => accountant.to_string(),
        },
        match (found.neighbours, found.group) {
            (Neighbours::AddOrRemove, None) => "one sample there or not".into(),
            (Neighbours::Replace, None) => "one sample in the place of another".into(),
            (Neighbours::AddOrRemove, Some(size)) => format!("{size} samples, all there or none of them"),
            (Neighbours::Replace, Some(size)) => format!("{size} samples in the places of others"),
        },
    )
}

impl FromText for Accountant {
    fn from_text(text: &str) -> Result<Self, String> {
        accountant(text)
    }
}
