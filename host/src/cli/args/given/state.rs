//! Settings of a run in its private state, for `--resume`.

use super::fault::Fault;
use super::file::rebase;
use super::table::{of_table, overlaid, table_of};
use super::words::of_args;
use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use crate::cli::session::network::INITIAL;
use clap::Command;
use damper_report::is_finished;
use damper_train::{Checkpoint, Invocation};
use std::path::{Path, PathBuf, absolute};
use toml::Table;

/// Settings that are allowed together with --resume. They change no bit.
const FREE: [&str; 8] =
    ["alone", "json", "quiet", "workers", "checkpoint-every", "events", "tensorboard", "shard-data"];
/// Settings of a call, not of its run: outputs, messages, launcher.
pub(in crate::cli) const NOT_KEPT: [&str; 4] = ["out", "alone", "json", "quiet"];

/// Returns the settings of the run in `out`, overridden by the allowed settings of `given`. The table has paths as they
/// were given.
pub(in crate::cli) fn resumed(given: &TrainArgs, out: &Path, train: &Command) -> Result<(TrainArgs, Table), Fault> {
    let own = table_of(given);
    if let Some(key) = own.keys().find(|key| !FREE.contains(&key.as_str())) {
        let flag = if key == "model" { "the model".to_owned() } else { format!("--{key}") };
        return Err(Failure::usage(format!("`resume`: the run has its own settings; leave out {flag}")).into());
    }
    let out = absolute(out).map_err(Failure::from)?;
    if is_finished(&out).map_err(Failure::from)? {
        Checkpoint::remove(&out.join("checkpoint")).map_err(Failure::from)?;
        let problem = "the run is finished, so there is nothing to resume; damper report makes its report again";
        return Err(Failure::in_file(&out, problem).into());
    }
    let invocation = Checkpoint::invocation(&out.join("checkpoint")).map_err(Failure::from)?;
    let settings = of_invocation(&invocation, train)?;
    // If the folder is gone, relative paths are resolved here. Data and model are compared with the run's.
    let folder = Some(PathBuf::from(&invocation.folder)).filter(|folder| folder.is_dir());
    let whole = folder.map_or(settings.clone(), |folder| rebase(settings.clone(), |path| folder.join(path)));
    let all = overlaid(whole, own.clone());
    let mut args = of_table(&all, train).map_err(|fault| {
        Failure::in_file(&out, format!("its state has a setting `{}` that this version does not read", fault.key))
    })?;
    let initial = out.join(INITIAL);
    if args.model.as_ref().is_some_and(|model| model.ends_with(INITIAL) && !model.exists()) && initial.exists() {
        // The folder was moved, and with it the network that the run made.
        args.model = Some(initial);
    }
    args.set_out(out.clone());
    args.resume = Some(out);
    Ok((args, overlaid(settings, own)))
}

/// Returns the settings of a run for its state, and the folder of their relative paths.
pub(in crate::cli) fn invocation(args: &TrainArgs, charge: Option<u64>) -> Result<Invocation, Failure> {
    let folder = std::env::current_dir()?.to_string_lossy().into_owned();
    let mut settings = table_of(args);
    settings.retain(|key, _| !NOT_KEPT.contains(&key));
    Ok(Invocation { folder, args: vec![], settings, charge })
}

/// Returns the settings of the run with this invocation.
fn of_invocation(invocation: &Invocation, train: &Command) -> Result<Table, Failure> {
    Ok(match &invocation.args[..] {
        [] => invocation.settings.clone(),
        // From an earlier version, which stored flags.
        args => table_of(&of_args(args, train)?),
    })
}
