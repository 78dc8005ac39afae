//! The settings of a run, by whoever gives them: flags, a run file, a program's keywords, the record of a run that goes on.
//!
//! All are [`TrainArgs`]: of flags by clap, of the others by serde, out of a table whose keys are the flags without dashes. What is given later
//! overrides what is given before, and rules hold for all of it together.

mod file;
mod rules;
mod words;

pub(super) use file::{read, rebase};
pub(super) use rules::check_model;
pub(super) use words::{argument, find, of_args, unknown, words};

use super::Failure;
use super::train::TrainArgs;
use clap::Command;
use damper_train::Invocation;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Why no run follows from what was given.
pub(super) enum Fault {
    /// A value, a file, or a key.
    Failure(Failure),
    /// A setting is missing, or two exclude each other: as the parser says it.
    Usage(Box<clap::Error>),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<clap::Error> for Fault {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}

/// A key whose value is at fault, and what to do.
pub(super) struct KeyFault {
    pub(super) key: String,
    pub(super) kind: KeyFaultKind,
}

pub(super) enum KeyFaultKind {
    /// There is no such setting.
    Unknown,
    /// The value, and what to give instead.
    Value(Value, String),
}

/// Settings of which one at most is given: a later one overrides the others.
const EITHER: [&str; 3] = ["epsilon", "noise-multiplier", "equation-6"];

/// Settings of a private run, which `not-private` overrides.
pub(super) const OF_PRIVATE: [&str; 11] = [
    "epsilon",
    "noise-multiplier",
    "equation-6",
    "delta",
    "accountant",
    "allow-large-delta",
    "clip",
    "noise",
    "readout",
    "grid-bits",
    "truncate",
];

/// The settings that `args` were given, without those of the call itself.
pub(super) fn table_of(args: &TrainArgs) -> Table {
    let mut table = Table::try_from(args).expect("settings are a table");
    table.retain(|_, value| match value {
        Value::Boolean(switch) => *switch,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    table
}

/// The settings in `table`. `train` is the subcommand's description.
pub(super) fn of_table(table: &Table, train: &Command) -> Result<TrainArgs, KeyFault> {
    let mut settings = Table::new();
    for (key, value) in table {
        let at = |kind| KeyFault { key: key.clone(), kind };
        let name = argument(train, key).ok_or_else(|| at(KeyFaultKind::Unknown))?;
        // Alone, so that an error is of this key.
        let one = Table::from_iter([(name.clone(), value.clone())]);
        TrainArgs::deserialize(one)
            .map_err(|error| at(KeyFaultKind::Value(value.clone(), words::plain_type(error.message()))))?;
        settings.insert(name, value.clone());
    }
    // Each alone is right.
    Ok(TrainArgs::deserialize(settings).expect("settings are read one by one"))
}

/// Lays `own` over the settings in `below`.
pub(super) fn overlaid(mut below: Table, own: Table) -> Table {
    if EITHER.iter().any(|key| own.contains_key(*key)) {
        EITHER.iter().for_each(|key| drop(below.remove(*key)));
    }
    if own.contains_key("not-private") {
        OF_PRIVATE.iter().for_each(|key| drop(below.remove(*key)));
    }
    below.extend(own);
    below
}

/// The run that `args` are to be: with what their run file has, if they name one, or the run that goes on. `train` is the subcommand's
/// description. Checked is what no value alone shows. Returns true if settings came out of a file.
pub(super) fn complete(args: &mut TrainArgs, train: &mut Command) -> Result<bool, Fault> {
    let run_file = args.model.clone().filter(|model| file::is_run_file(model));
    let is_filed = args.resume.is_some() || run_file.is_some();
    if let Some(out) = args.resume.take() {
        *args = super::resume::resumed(args, &out, train)?;
    } else if let Some(run_file) = run_file {
        args.model = None;
        let below = file::settings(&file::checked(&run_file)?, &run_file, train)?;
        *args = of_file(&overlaid(below, table_of(args)), &run_file, train)?;
        if args.model.is_none() {
            rules::check_but_model(&table_of(args), train)?;
            return Err(Failure::in_file(&run_file, "names no model; add a line: model = \"FILE.onnx\"").into());
        }
    }
    rules::check(&table_of(args), train)?;
    Ok(is_filed)
}

/// [`of_table`], whose errors name `file`.
fn of_file(table: &Table, file: &Path, train: &Command) -> Result<TrainArgs, Failure> {
    of_table(table, train).map_err(|fault| match fault.kind {
        KeyFaultKind::Unknown => Failure::in_run_file(file, unknown(train, &fault.key)),
        KeyFaultKind::Value(value, problem) => {
            Failure::in_run_file(file, format!("`{} = {value}`: {problem}", fault.key))
        }
    })
}

/// The file in an output folder that has the settings of its run.
pub(super) const RECORD: &str = "config.toml";

/// The settings of a run as a run file, for everybody who has its outputs: without the place of a recording, which is secret, and with a
/// declared number of samples without the counted one. A model in the folder is named from there.
pub(super) fn record(args: &TrainArgs) -> Result<String, Failure> {
    let mut settings = table_of(args);
    let is_declared = settings.contains_key("dataset-size");
    settings.retain(|key, _| {
        !super::resume::NOT_KEPT.contains(&key)
            && !["record", "record-limit", "copy-model"].contains(&key)
            && !(is_declared && ["samples", "budget"].contains(&key))
    });
    let out = std::path::absolute(args.out())?;
    let kept = args.model.as_ref().and_then(|model| model.strip_prefix(&out).ok());
    if let Some(kept) = kept {
        settings.insert("model".into(), Value::String(kept.display().to_string()));
    }
    Ok(format!("# The settings of this run. damper train {RECORD} --out DIR takes them again.\n{settings}"))
}

/// What the state of a run keeps: its settings, and the folder where their paths begin.
pub(super) fn invocation(args: &TrainArgs, charge: Option<u64>) -> Result<Invocation, Failure> {
    let folder = std::env::current_dir()?.to_string_lossy().into_owned();
    let mut settings = table_of(args);
    settings.retain(|key, _| !super::resume::NOT_KEPT.contains(&key));
    Ok(Invocation { folder, args: vec![], settings, charge })
}

/// The settings of the run with this invocation, with paths that hold from anywhere.
pub(super) fn of_invocation(invocation: &Invocation, train: &Command) -> Result<Table, Failure> {
    let settings = match &invocation.args[..] {
        [] => invocation.settings.clone(),
        // Of a version before 0.2, which kept flags.
        args => table_of(&words::of_args(args, train)?),
    };
    // If it is gone, relative paths are those of the folder here; data and model are compared with the run's.
    let folder = Some(PathBuf::from(&invocation.folder)).filter(|folder| folder.is_dir());
    Ok(folder.map_or(settings.clone(), |folder| rebase(settings, |path| folder.join(path))))
}
