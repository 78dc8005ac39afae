//! Settings as command-line arguments: for readers of a record, and for states of earlier versions that stored them in
//! this form.

use crate::cli::Failure;
use crate::cli::args::text::written;
use crate::cli::args::train::TrainArgs;
use clap::{Arg, ArgAction, Command, FromArgMatches};
use toml::{Table, Value};

/// Flags that are not settings.
const OF_CALL: [&str; 3] = ["help", "resume", "version"];

/// Returns the setting with the name `key`, now or in an earlier version.
pub(in crate::cli) fn argument(train: &Command, key: &str) -> Option<String> {
    if key == "model" {
        return Some(key.into());
    }
    let name = find(train, key)?.get_long()?;
    (!OF_CALL.contains(&name)).then(|| name.to_owned())
}

/// Returns the argument with the name `key`, now or in an earlier version.
pub(in crate::cli) fn find<'a>(train: &'a Command, key: &str) -> Option<&'a Arg> {
    let has =
        |arg: &&Arg| arg.get_long() == Some(key) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&key));
    train.get_arguments().find(has)
}

/// Returns the message about an unknown key.
pub(in crate::cli) fn unknown(train: &Command, key: &str) -> String {
    let with_dashes = key.replace('_', "-");
    if with_dashes != key && argument(train, &with_dashes).is_some() {
        return format!("unknown key `{key}`: write it `{with_dashes}`");
    }
    format!("unknown key `{key}`: damper train --help-all lists the flags")
}

/// Returns `settings` as arguments: `--flag=value`, repeated as needed, with the model last.
pub(in crate::cli) fn words(settings: &Table, train: &Command) -> Vec<String> {
    let mut words = Vec::new();
    let mut model = None;
    for (key, value) in settings {
        if key == "model" {
            model = written(value);
            continue;
        }
        let one = |value: &Value| written(value).map(|text| format!("--{key}={text}"));
        let action = find(train, key).map(Arg::get_action);
        match (value, action) {
            (Value::Boolean(true), _) => words.push(format!("--{key}")),
            (Value::Array(items), Some(ArgAction::Append)) => words.extend(items.iter().filter_map(one)),
            (value, _) => words.extend(one(value)),
        }
    }
    words.extend(model);
    words
}

/// Parses the arguments that an earlier version stored, including `--model-file=`. A run file precedes the model that
/// it names.
pub(in crate::cli) fn of_args(args: &[String], train: &Command) -> Result<TrainArgs, Failure> {
    let model = args.iter().rev().find_map(|arg| arg.strip_prefix("--model-file="));
    let flags = args.iter().filter(|arg| !arg.starts_with("--model-file=")).map(String::as_str);
    let line = ["train"].into_iter().chain(flags).chain(["--"]).chain(model);
    let parsed = train.clone().try_get_matches_from(line).and_then(|matches| TrainArgs::from_arg_matches(&matches));
    let mut args = parsed.map_err(|error| Failure::new(crate::cli::plain(&error)))?;
    super::place::take(&mut args)?;
    Ok(args)
}
