//! `damper train --resume DIR`: the command line of the run in DIR, from its checkpoint.

use super::Failure;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};
use damper_report::is_finished;
use damper_train::{Checkpoint, Invocation};
use std::any::TypeId;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};

/// What may be given beside --resume: it changes no bit.
const FREE: [&str; 10] = [
    "resume",
    "alone",
    "json",
    "quiet",
    "workers",
    "checkpoint_every",
    "no_checkpoint",
    "events",
    "tensorboard",
    "shard_data",
];
/// What is not part of a run's settings: where it writes, what is told of it, and what has started it.
const NOT_KEPT: [&str; 5] = ["out", "resume", "alone", "json", "quiet"];

/// A command line in full, and the folder where its relative paths begin if that is not the working folder.
pub(super) struct Expanded {
    pub(super) args: Vec<OsString>,
    pub(super) folder: Option<PathBuf>,
}

impl Expanded {
    /// The command line with paths that hold in the working folder, which stays: it is that of all threads of the process.
    pub(super) fn rebased(self, command: &Command) -> Vec<OsString> {
        let Some(folder) = self.folder else { return self.args };
        let train = command.find_subcommand("train").expect("the subcommand was parsed");
        let rebase = |arg: OsString| match arg.to_str().and_then(|text| rebased(train, &folder, text)) {
            Some(rebased) => rebased.into(),
            None => arg,
        };
        self.args.into_iter().map(rebase).collect()
    }
}

/// `--flag=value` of `train` with the path in it, if it has one, as seen from anywhere.
fn rebased(train: &Command, folder: &Path, text: &str) -> Option<String> {
    let (flag, value) = text.strip_prefix("--")?.split_once('=')?;
    let arg = train.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    let (before, path) = match flag {
        "data" | "test" => value
            .split_once(':')
            .filter(|(kind, _)| *kind != "memory")
            .map(|(kind, path)| (format!("{kind}:"), path))?,
        // Names, or the file that has them.
        "classes" if value.contains(',') => return None,
        "classes" => (String::new(), value),
        _ if arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() => (String::new(), value),
        _ => return None,
    };
    Some(format!("--{flag}={before}{}", folder.join(path).display()))
}

/// The command line `args` in full if it is `damper train --resume DIR`; else as it is.
pub(super) fn expand(command: &Command, args: Vec<OsString>) -> Result<Expanded, Failure> {
    let as_it_is = |args| Ok(Expanded { args, folder: None });
    // What is wrong with the command line is for the real parse to say.
    let lenient = command.clone().ignore_errors(true).disable_help_flag(true);
    let Ok(matches) = lenient.try_get_matches_from(&args) else { return as_it_is(args) };
    let Some(("train", given)) = matches.subcommand() else { return as_it_is(args) };
    let Ok(Some(out)) = given.try_get_one::<PathBuf>("resume") else { return as_it_is(args) };
    let train = command.find_subcommand("train").expect("the subcommand was parsed");
    if let Some(flag) = given_flags(train, given, &FREE).into_iter().next() {
        let flag = flag.split('=').next().unwrap_or_default();
        let flag = if flag == "--model-file" { "the model" } else { flag };
        return Err(Failure::new(format!("--resume: the run has its own settings; leave out {flag}")));
    }
    let out = absolute(out)?;
    if is_finished(&out)? {
        Checkpoint::remove(&out.join("checkpoint"))?;
        return Err(Failure::in_file(
            &out,
            "the run is finished, so there is nothing to resume; damper report makes its report again",
        ));
    }
    let invocation = Checkpoint::invocation(&out.join("checkpoint"))?;
    // If it is gone, relative paths are those of the folder here; data and model are compared with the run's.
    let folder = Some(PathBuf::from(&invocation.folder)).filter(|folder| folder.is_dir());
    let own = given_flags(train, given, &["resume"]);
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    let is_own = |flag: &&String| own.iter().any(|own| name(own) == name(flag));
    // States of earlier versions have the run file first, and then the model that it names.
    let is_model = |flag: &String| name(flag) == "--model-file";
    let model = invocation.args.iter().rposition(is_model);
    let kept = invocation
        .args
        .iter()
        .enumerate()
        .filter(|(at, flag)| !is_own(flag) && (!is_model(flag) || Some(*at) == model));
    let kept = kept.map(|(_, flag)| flag);
    let mut all: Vec<OsString> = args.into_iter().take(1).chain(["train".into()]).collect();
    all.extend(kept.chain(&own).map(OsString::from));
    for flag in ["--out", "--resume"] {
        all.extend([flag.into(), out.clone().into_os_string()]);
    }
    Ok(Expanded { args: all, folder })
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
        // A run file, whose flags are given, that of its model among them.
        let is_run_file = id == "model" && given.contains_id("model_file");
        if but.contains(&id) || given.try_contains_id(id).is_err() || is_run_file {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn rebased(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from).collect();
        let all = Expanded { args, folder: Some("/the/run".into()) }.rebased(&Cli::command());
        all.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn relative_paths_begin_in_the_runs_folder() {
        for (given, expected) in [
            ("--model-file=m.onnx", "--model-file=/the/run/m.onnx"),
            ("--data=csv:d/x.csv", "--data=csv:/the/run/d/x.csv"),
            ("--data=csv:/d/x.csv", "--data=csv:/d/x.csv"),
            ("--test=npy:t.npy", "--test=npy:/the/run/t.npy"),
            ("--test=0.25", "--test=0.25"),
            ("--data=memory:train", "--data=memory:train"),
            ("--budget=b.json", "--budget=/the/run/b.json"),
            ("--tokenizer=t.json", "--tokenizer=/the/run/t.json"),
            ("--labels=l.npy", "--labels=/the/run/l.npy"),
            ("--test-labels=l.npy", "--test-labels=/the/run/l.npy"),
            ("--cache=c", "--cache=/the/run/c"),
            ("--image-cache=c", "--image-cache=/the/run/c"),
            ("--record=r.pack", "--record=/the/run/r.pack"),
            ("--events=e.jsonl", "--events=/the/run/e.jsonl"),
            ("--tensorboard=t", "--tensorboard=/the/run/t"),
            ("--tune=t", "--tune=/the/run/t"),
            ("--classes=a,b", "--classes=a,b"),
            ("--classes=names.txt", "--classes=/the/run/names.txt"),
            ("--lr=0.5", "--lr=0.5"),
            ("--quiet", "--quiet"),
        ] {
            assert_eq!(rebased(&["damper", "train", given]), ["damper", "train", expected]);
        }
    }
}
