//! Rules on settings: required settings, exclusions and dependencies.

use super::table::OF_PRIVATE;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use toml::Table;

/// Settings that a single run requires.
const REQUIRED: [&str; 1] = ["data"];
/// Settings that several runs of one plan require as well, so that each has the same.
const OF_SEVERAL: [&str; 4] = ["out", "batch-size", "epochs", "lr"];
/// Settings that are required unless an alternative is given.
const UNLESS: [(&str, &[&str]); 1] = [("epsilon", &["noise-multiplier", "equation-6", "not-private"])];
/// As [`UNLESS`], for several runs.
const UNLESS_OF_SEVERAL: [(&str, &[&str]); 1] = [("delta", &["noise-multiplier", "not-private"])];
/// Settings, and the settings that exclude them.
const EXCLUDES: [(&str, &[&str]); 10] = [
    ("epsilon", &["noise-multiplier"]),
    ("equation-6", &["epsilon", "noise-multiplier"]),
    ("not-private", &OF_PRIVATE),
    ("normalize-private", &["normalize"]),
    ("only", &["train", "freeze"]),
    ("lora", &["only", "untie"]),
    ("adaptive-fir", &["filter"]),
    ("no-bias-correction", &["adaptive-fir"]),
    ("kappa", &["gain-recursion"]),
    // Programs give this setting. It is last, so that errors first name settings that their users gave.
    ("parameter", &["only", "freeze", "tie", "untie"]),
];
/// Settings, and the setting that each requires.
const NEEDS: [(&str, &str); 12] = [
    ("budget", "samples"),
    ("samples", "budget"),
    ("lora", "lora-target"),
    ("lora-target", "lora"),
    ("lora-alpha", "lora"),
    ("lora-keep", "lora-target"),
    ("lora-keep", "lora"),
    ("normalize-noise-multiplier", "normalize-private"),
    ("non-finite-noise-multiplier", "release-non-finite"),
    ("record-limit", "record"),
    ("subtract-noise", "adagrad-norm"),
    ("norm-weight", "adagrad-norm"),
];

/// The runs that settings are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Runs {
    /// One run: what it leaves open has a default by the size of its data.
    One,
    /// Runs of a comparison or an audit.
    Several,
}

/// Checks the rules, with the errors of the parser.
pub(super) fn check(given: &Table, runs: Runs, train: &mut Command) -> Result<(), Error> {
    exclusions(given, train)?;
    complete(lacking(given).into_iter().chain(missing(given, runs)).collect(), train)
}

/// As [`check`], for a run without a model name.
pub(super) fn check_but_model(given: &Table, runs: Runs, train: &mut Command) -> Result<(), Error> {
    let mut given = given.clone();
    given.insert("model".into(), "".into());
    check(&given, runs, train)
}

/// Checks only the settings of a model, with the errors of the parser. Subcommands without a run share them.
pub(in crate::cli) fn check_model(given: &Table, command: &mut Command) -> Result<(), Error> {
    let of_model = |key: &&str| key.starts_with("lora") || ["parameter", "only"].contains(key);
    let mut of = given.clone();
    let keys = EXCLUDES.iter().map(|(key, _)| *key).chain(NEEDS.iter().map(|(key, _)| *key));
    keys.filter(|key| !of_model(key)).for_each(|key| drop(of.remove(key)));
    exclusions(&of, command)?;
    complete(lacking(&of), command)
}

/// Fails if settings exclude each other.
fn exclusions(given: &Table, command: &mut Command) -> Result<(), Error> {
    let has = |key: &str| given.contains_key(key);
    let found = EXCLUDES.iter().filter(|(key, _)| has(key));
    let Some((key, other)) =
        found.flat_map(|(key, others)| others.iter().map(|other| (*key, *other))).find(|(_, other)| has(other))
    else {
        return Ok(());
    };
    let mut error = Error::new(ErrorKind::ArgumentConflict).with_cmd(command);
    error.insert(ContextKind::InvalidArg, ContextValue::String(shown(command, key)));
    error.insert(ContextKind::PriorArg, ContextValue::String(shown(command, other)));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    Err(error)
}

/// Returns the settings that others need and that are missing.
fn lacking(given: &Table) -> Vec<&'static str> {
    let has = |key: &str| given.contains_key(key);
    NEEDS.iter().filter(|(key, other)| has(key) && !has(other)).map(|(_, other)| *other).collect()
}

/// Returns the required settings that are missing.
fn missing(given: &Table, runs: Runs) -> Vec<&'static str> {
    let has = |key: &&str| given.contains_key(*key);
    let (required, unless): (&[&str], &[(&str, &[&str])]) = match runs {
        Runs::One => (&[], &[]),
        Runs::Several => (&OF_SEVERAL, &UNLESS_OF_SEVERAL),
    };
    let required = required.iter().chain(&REQUIRED).copied().filter(|key| !has(key));
    let unless = UNLESS.iter().chain(unless).filter(|(key, others)| !has(key) && !others.iter().any(&has));
    let model = (!given.contains_key("model")).then_some("model");
    // No rate of theirs was measured.
    let is = |key: &str, values: &[&str]| {
        given.get(key).and_then(|value| value.as_str()).is_some_and(|value| values.contains(&value))
    };
    let rate = is("optimizer", &["adagrad", "adam-bc"]) || is("method", &["adp"]) || has(&"adagrad-norm");
    let rate = (rate && runs == Runs::One && !has(&"lr")).then_some("lr");
    required.chain(rate).chain(unless.map(|(key, _)| *key)).chain(model).collect()
}

/// Returns the flag of a setting with its value, as the parser shows it.
fn shown(command: &Command, key: &str) -> String {
    // Both may be given by place.
    match key {
        "model" => return "<MODEL.onnx|RUN.toml>".into(),
        "data" if command.get_positionals().nth(1).is_some() => return "<DATA>".into(),
        _ => {}
    }
    let id = key.replace('-', "_");
    command
        .get_arguments()
        .find(|arg| arg.get_id() == id.as_str())
        .map_or_else(|| format!("--{key}"), |arg| arg.clone().required(true).to_string())
}

/// Fails if settings are missing.
fn complete(missing: Vec<&str>, command: &mut Command) -> Result<(), Error> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut error = Error::new(ErrorKind::MissingRequiredArgument).with_cmd(command);
    let keys = missing.into_iter().map(|key| shown(command, key)).collect();
    error.insert(ContextKind::InvalidArg, ContextValue::Strings(keys));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    Err(error)
}
