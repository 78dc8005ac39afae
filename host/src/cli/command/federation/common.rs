//! Input files of the subcommands of `damper federation`.

use crate::cli::args::data::DataArgs;
use crate::cli::args::flags::with_flags;
use crate::cli::args::model::ModelArgs;
use crate::cli::{Failure, say_of_data, warn};
use damper_accounting::{RunKind, upward};
use damper_data::{DataOptions, KnownNames};
use damper_federated::Users;
use damper_federation::{Aggregation, DeviceNoise, FederationEpsilon, FederationPlan, Unit};
use damper_train::files::sha256;
use damper_train::{InputFiles, ModelAndData, read};
use serde::Serialize;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

/// Reads the plan in `file`.
pub(in crate::cli) fn read_plan(file: &Path) -> Result<FederationPlan, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::of_file(file, error))?;
    FederationPlan::from_json(&bytes).map_err(|error| Failure::of_file(file, error))
}

/// Fails if the model is not the plan's.
pub(super) fn check_model(plan: &FederationPlan, model: &Path) -> Result<(), Failure> {
    let digest = sha256(&fs::read(model).map_err(|error| Failure::of_file(model, error))?);
    if digest == plan.model_sha256 {
        return Ok(());
    }
    Err(Failure::in_file(model, "not the model of the plan, which is the same in all rounds; ask for it again"))
}

/// Returns the flags for reading the model, which are the plan's. Flags that are also given must be equal.
pub(super) fn model_of_plan(plan: &FederationPlan, given: &ModelArgs) -> Result<ModelArgs, Failure> {
    let words = given.words();
    if !words.is_empty() && words != plan.model_flags {
        let planned = match plan.model_flags.join(" ") {
            none if none.is_empty() => "no such flags".into(),
            flags => format!("`{flags}`"),
        };
        return Err(Failure::new(format!("{}: the plan has {planned}; leave them out here", words.join(" "))));
    }
    let options = ModelArgs::of_words(&plan.model_flags);
    let mut options = options.map_err(|problem| Failure::new(format!("the plan's flags of the model: {problem}")))?;
    options.checkpoint_activations = given.checkpoint_activations;
    Ok(options)
}

/// Reads the trained parameters in `file`: little-endian float32 values. An incomplete value at the end is dropped, and
/// the number of parameters is then wrong.
pub(in crate::cli) fn read_params(file: &Path) -> Result<Vec<f32>, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::of_file(file, error))?;
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().copied().map(f32::from_le_bytes);
    Ok(if rest.is_empty() { words.collect() } else { vec![] })
}

/// Privacy cost of all rounds of a plan, in JSON.
#[derive(Serialize)]
pub(in crate::cli) struct Cost {
    epsilon: FederationEpsilon,
    delta: f64,
    unit: Unit,
    /// Size of a group that is present or absent as a whole. `None` for one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    run: RunKind,
    rounds: u32,
}

impl Cost {
    /// Returns the cost of `plan` for one unit.
    pub(in crate::cli) fn of(plan: &FederationPlan) -> Result<Self, Failure> {
        Self::of_group(plan, None)
    }

    /// Returns the cost of `plan` for a group of units.
    pub(in crate::cli) fn of_group(plan: &FederationPlan, group: Option<NonZeroU32>) -> Result<Self, Failure> {
        let group = group.filter(|size| *size > NonZeroU32::MIN);
        let cost = plan.epsilon_of_group(plan.rounds, group.unwrap_or(NonZeroU32::MIN))?;
        Ok(Self {
            epsilon: cost,
            delta: plan.delta,
            unit: plan.unit,
            group: group.map(NonZeroU32::get),
            run: plan.run,
            rounds: plan.rounds,
        })
    }
}

/// Formats `cost`, the cost of `plan`.
pub(in crate::cli) fn cost_text(plan: &FederationPlan, cost: &Cost) -> String {
    let protects = match (plan.unit, cost.group) {
        (Unit::Sample, None) => "one sample, there or not".into(),
        (Unit::User, None) => "one user with all of its samples, there or not".into(),
        (Unit::Sample, Some(size)) => format!("{size} samples, all there or none of them"),
        (Unit::User, Some(size)) => format!("{size} users with all of their samples, all there or none of them"),
    };
    let simulation = if plan.run == RunKind::Simulation {
        "\nNO GUARANTEE      a simulation: its noise can be recomputed"
    } else {
        ""
    };
    format!(
        "{}\ndelta             {:e}\nprotects          {protects}\nrounds            {}, all of them\nnoise             of {} devices{}, {} \
         grid units each{simulation}",
        parties(plan, &cost.epsilon),
        plan.delta,
        plan.rounds,
        plan.smallest_cohort,
        match plan.colluders {
            0 => String::new(),
            colluders => format!(" less {colluders}"),
        },
        plan.sigma,
    )
}

/// Formats ε for each party, a line each.
pub(in crate::cli) fn parties(plan: &FederationPlan, epsilon: &FederationEpsilon) -> String {
    let colluders = match plan.colluders {
        0 => String::new(),
        colluders => format!(" and those of {colluders} more"),
    };
    let server = match (plan.aggregation, plan.noise) {
        (Aggregation::Prio, _) => "for either aggregator, while the other one is honest",
        (Aggregation::Clear, DeviceNoise::Local) => "for the server, which reads each update",
        (Aggregation::Clear, DeviceNoise::Shares) => {
            "for the server, which reads each update: a share of the noise; keep updates from it by --aggregation prio, or trust it"
        }
    };
    let times = match plan.reply_seconds {
        Some(seconds) => format!("; answers come after {seconds} s, whatever a device drew"),
        None => "; it sees when answers come, so its figure is that of a sampling rate of 1".to_owned(),
    };
    let of_server = epsilon.server.map_or_else(|| "none".to_owned(), upward);
    format!(
        "epsilon           {}, for an outsider, who sees the sums and the models\n                  {}, for a participant, who takes its own \
         noise{colluders} off\n                  {of_server}, {server}{times}",
        upward(epsilon.outsider),
        upward(epsilon.participant),
    )
}

/// Reads a device's model and its data at `place`.
pub(super) fn read_device(
    plan: &FederationPlan,
    model: &Path,
    data: &DataArgs,
    place: &str,
    options: &ModelArgs,
) -> Result<ModelAndData, Failure> {
    let names = KnownNames { names: plan.names.clone(), origin: "the plan".into(), are_all: true };

    let source = InputFiles {
        model: model.into(),
        of_file: options.of_file(),
        graph: options.graph_options(),
        lora: options.lora(),
        derive: options.derive_options(),
        data: place.into(),
        data_options: DataOptions { names: Some(names), ..data.options() },
    };
    // The server reads the model too, and has no runtime.
    let read = read(&source, None).map_err(|error| Failure::in_model(model, error))?;
    if let Some((mean, std)) = read.data.train.label_scale().filter(|scale| *scale != (0.0, 1.0)) {
        return Err(Failure::usage(format!(
            "`scale` {mean},{std}: the server's model cannot undo a scale of labels; write scaled labels, by the same constants on all devices"
        )));
    }
    read.warnings.iter().for_each(|warning| warn(&with_flags(warning)));
    read.data.notes.iter().for_each(|note| say_of_data(note));
    Ok(read)
}

/// Returns the users of the rows of `read`.
pub(super) fn read_users(file: Option<&Path>, read: &ModelAndData, plan: &FederationPlan) -> Result<Users, Failure> {
    let rows = read.data.train.len();
    match file {
        Some(file) if plan.unit == Unit::Sample => {
            Err(Failure::usage(format!("`users` {}: the plan protects samples; leave it out", file.display())))
        }
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| Failure::of_file(file, error))?;
            Ok(Users::read(&text, rows, file)?)
        }
        None => {
            let rows = u32::try_from(rows).map_err(|_| Failure::usage("`data`: more rows than 2^32; give fewer"))?;
            Ok(Users::one(rows))
        }
    }
}
