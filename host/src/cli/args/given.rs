//! Settings of a run, from each source: flags, a run file, a program's keywords, the state of a run that `--resume`
//! continues.
//!
//! All are [`TrainArgs`]. Clap parses flags. Serde reads the other sources from a table with the flags without dashes
//! as keys. A later source overrides an earlier source, and rules apply to the merged settings.

mod fault;
mod file;
mod place;
mod record;
mod rules;
mod state;
mod table;
mod value;
mod words;

pub(in crate::cli) use fault::{Fault, KeyFault, KeyFaultKind};
pub(in crate::cli) use file::read;
pub(in crate::cli) use record::{RECORD, record};
pub(in crate::cli) use rules::{Runs, check_model};
pub(in crate::cli) use state::invocation;
pub(in crate::cli) use table::{of_table, table_of};
pub(in crate::cli) use value::Given;
pub(in crate::cli) use words::{argument, find, of_args, unknown, words};

use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use clap::Command;
use state::resumed;
use std::path::Path;
use table::overlaid;
use toml::Table;

/// Completes `args` from their run file, if they name one, or from the run to resume. `train` is the subcommand's
/// description.
///
/// Checks the rules that concern several values. Returns the settings to record, if some came from a file.
pub(in crate::cli) fn complete(args: &mut TrainArgs, runs: Runs, train: &mut Command) -> Result<Option<Table>, Fault> {
    place::take(args)?;
    let run_file = args.model.clone().filter(|model| file::is_run_file(model));
    let mut recorded = None;
    if let Some(out) = args.resume.take() {
        let (of_run, as_given) = resumed(args, &out, train)?;
        (*args, recorded) = (of_run, Some(as_given));
    } else if let Some(run_file) = run_file {
        args.model = None;
        let below = file::settings(&file::checked(&run_file)?, &run_file, train)?;
        *args = of_file(&overlaid(below, table_of(args)), &run_file, train)?;
        if args.model.is_none() {
            rules::check_but_model(&table_of(args), runs, train)?;
            return Err(Failure::in_file(&run_file, "names no model; add a line: model = \"FILE.onnx\"").into());
        }
        recorded = Some(table_of(args));
    }
    rules::check(&table_of(args), runs, train)?;
    let network = args.network()?;
    if let (Some(network), Runs::Several) = (&network, runs) {
        let problem = "is a network by name, which a single run takes; give the file initial.onnx of such a run";
        return Err(Failure::usage(format!("`model` {network}: {problem}")).into());
    }
    if let (Some(network), true) = (&network, args.has_budget() && !args.data.is_in_program()) {
        let problem = "its sizes are read from the data, and `budget` is charged before; give a file, such as initial.onnx of a run on a few made-up rows of the same columns";
        return Err(Failure::usage(format!("`model` {network}: {problem}")).into());
    }
    args.found = args.data.find_kinds(network.as_ref())?;
    args.found.extend(args.unscaled());
    Ok(recorded)
}

/// Returns the settings of the finished run in `folder`, overridden by those in `own`. `train` is the subcommand's
/// description.
pub(in crate::cli) fn settings_of_run(folder: &Path, own: &TrainArgs, train: &Command) -> Result<TrainArgs, Failure> {
    let file = folder.join(RECORD);
    if !file.is_file() {
        let problem = format!("has no {RECORD}; give the folder of a run, which damper train made");
        return Err(Failure::in_file(folder, problem));
    }
    let below = file::settings(&read(&file)?, &file, train)?;
    of_file(&overlaid(below, table_of(own)), &file, train)
}

/// As [`of_table`], with errors that name `file`.
fn of_file(table: &Table, file: &Path, train: &Command) -> Result<TrainArgs, Failure> {
    of_table(table, train).map_err(|fault| match fault.kind {
        KeyFaultKind::Unknown => Failure::in_run_file(file, unknown(train, &fault.key)),
        KeyFaultKind::Value(value, problem) => {
            Failure::in_run_file(file, format!("`{} = {value}`: {problem}", fault.key))
        }
    })
}
