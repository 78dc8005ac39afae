//! `damper train --resume DIR`: the command line of the run in DIR, from its checkpoint.

use super::Failure;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};
use damper_report::is_finished;
use damper_train::{Checkpoint, Invocation};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};

/// What may be given beside --resume: it changes no bit.
const FREE: [&str; 9] =
    ["resume", "json", "quiet", "workers", "checkpoint_every", "no_checkpoint", "events", "tensorboard", "shard_data"];
/// What is not part of a run's settings: where it writes, and what is told of it.
const NOT_KEPT: [&str; 4] = ["out", "resume", "json", "quiet"];

/// The command line `args` in full if it is `damper train --resume DIR`; else as it is. The working folder becomes that of the run.
pub(super) fn expand(command: &Command, args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    // What is wrong with the command line is for the real parse to say.
    let lenient = command.clone().ignore_errors(true).disable_help_flag(true);
    let Ok(matches) = lenient.try_get_matches_from(&args) else { return Ok(args) };
    let Some(("train", given)) = matches.subcommand() else { return Ok(args) };
    let Ok(Some(out)) = given.try_get_one::<PathBuf>("resume") else { return Ok(args) };
    let train = command.find_subcommand("train").expect("the subcommand was parsed");
    if let Some(flag) = given_flags(train, given, &FREE).into_iter().next() {
        let flag = flag.split('=').next().unwrap_or_default();
        let flag = if flag == "--model-file" { "the model" } else { flag };
        return Err(Failure::new(format!("--resume: the run has its own settings; leave out {flag}")));
    }
    let out = absolute(out)?;
    if is_finished(&out)? {
        Checkpoint::remove(&out.join("checkpoint"))?;
        return Err(Failure::in_file(&out, "the run is finished, so there is nothing to resume"));
    }
    let invocation = Checkpoint::invocation(&out.join("checkpoint"))?;
    // If it is gone, relative paths are those of the folder here; data and model are compared with the run's.
    let _ = env::set_current_dir(&invocation.folder);
    let own = given_flags(train, given, &["resume"]);
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    let is_own = |flag: &&String| own.iter().any(|own| name(own) == name(flag));
    let kept = invocation.args.iter().filter(|flag| !is_own(flag));
    let mut all: Vec<OsString> = args.into_iter().take(1).chain(["train".into()]).collect();
    all.extend(kept.chain(&own).map(OsString::from));
    for flag in ["--out", "--resume"] {
        all.extend([flag.into(), out.clone().into_os_string()]);
    }
    Ok(all)
}

/// The settings of a run by its parsed command line.
pub(super) fn invocation(train: &Command, given: &ArgMatches) -> Result<Invocation, Failure> {
    let folder = env::current_dir()?.to_string_lossy().into_owned();
    Ok(Invocation { folder, args: given_flags(train, given, &NOT_KEPT), charge: None })
}

/// The flags on the command line but those of these names, each as `--flag=value`.
fn given_flags(train: &Command, given: &ArgMatches, but: &[&str]) -> Vec<String> {
    let mut flags = Vec::new();
    for arg in train.get_arguments() {
        let id = arg.get_id().as_str();
        if but.contains(&id) || given.try_contains_id(id).is_err() {
            continue;
        }
        if given.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let flag = arg.get_long().unwrap_or("model-file");
        match arg.get_action() {
            ArgAction::SetTrue => flags.push(format!("--{flag}")),
            _ => {
                let values = given.get_raw(id).into_iter().flatten();
                flags.extend(values.map(|value| format!("--{flag}={}", value.to_string_lossy())));
            }
        }
    }
    flags
}

/// How the run in `out` goes on.
pub(super) fn command(out: &Path) -> String {
    format!("damper train --resume {}", out.display())
}
