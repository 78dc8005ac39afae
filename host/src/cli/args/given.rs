//! The settings of a run, by whoever gives them: flags, a run file, a program's keywords, the state of a run that `--resume` continues.
//!
//! All are [`TrainArgs`]: of flags by clap, of the others by serde, out of a table whose keys are the flags without dashes. What is given later
//! overrides what is given before, and rules hold for all of it together.

mod fault;
mod file;
mod record;
mod rules;
mod state;
mod table;
mod value;
mod words;

pub(in crate::cli) use fault::{Fault, KeyFault, KeyFaultKind};
pub(in crate::cli) use file::read;
pub(in crate::cli) use record::{RECORD, record};
pub(in crate::cli) use rules::check_model;
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

/// The run that `args` are to be: with what their run file has, if they name one, or of the run to continue. `train` is the subcommand's
/// description. Checked is what no value alone shows. Returns the settings to be recorded, if some came out of a file.
pub(in crate::cli) fn complete(args: &mut TrainArgs, train: &mut Command) -> Result<Option<Table>, Fault> {
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
            rules::check_but_model(&table_of(args), train)?;
            return Err(Failure::in_file(&run_file, "names no model; add a line: model = \"FILE.onnx\"").into());
        }
        recorded = Some(table_of(args));
    }
    rules::check(&table_of(args), train)?;
    Ok(recorded)
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
