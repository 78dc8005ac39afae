//! `damper train run.toml`, and the audits of such a run: the same flags from a file, and flags given on the command line override it.
//!
//! A key is a flag's name without the dashes, and `model` the model. The file becomes flags before the command line is
//! parsed, so both go through one parser. Paths are relative to the file; what is read may also lie in the working directory.

use super::{Failure, plain_words};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use toml::Value;

/// Flags of which one at most is given: one on the command line overrides the other's in the file.
const EITHER: [&str; 3] = ["epsilon", "noise-multiplier", "equation-6"];

/// Keys of a private run, which --not-private on the command line overrides.
const OF_PRIVATE: [&str; 12] = [
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
    "not-private",
];

/// Keys whose value is a path of a file that is read, and of one that is written.
const READ: [&str; 3] = ["model", "budget", "tokenizer"];
const WRITTEN: [&str; 2] = ["out", "record"];

/// Keys whose value may be KIND:PATH.
const DATA: [&str; 2] = ["data", "test"];

/// Extensions of files of settings in other languages.
const OTHERS: [&str; 6] = ["yaml", "yml", "json", "ini", "cfg", "conf"];

/// The command line `args` with what is in its `.toml` file added as flags; `args` as it is if it names none.
pub(super) fn expand(command: Command, args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    // What is wrong with the command line is for the real parse to say.
    let lenient = command.clone().ignore_errors(true).disable_help_flag(true);
    let Ok(matches) = lenient.try_get_matches_from(&args) else { return Ok(args) };
    let (path, given) = match matches.subcommand() {
        Some(("train", given)) => (vec!["train"], given),
        Some(("audit", audit)) => match audit.subcommand() {
            Some((kind, given)) => (vec!["audit", kind], given),
            None => return Ok(args),
        },
        _ => return Ok(args),
    };
    let Ok(Some(file)) = given.try_get_one::<std::path::PathBuf>("model") else { return Ok(args) };
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    if OTHERS.contains(&extension) {
        let found = if file.exists() { "not a run file" } else { "there is no such file" };
        let problem = format!("{found}; write a run file in TOML, as run.toml (damper train --help shows one)");
        return Err(Failure::in_file(file, problem));
    }
    if extension != "toml" {
        return Ok(args);
    }
    let found = path.iter().try_fold(&command, |command, name| command.find_subcommand(name));
    let flags = flags(found.expect("the subcommand was parsed"), given, file)?;
    // Behind the program's name and the subcommand's.
    let at = 1 + path.len();
    let mut all = args;
    all.splice(at..at, flags);
    Ok(all)
}

/// The entries of a file of flags, in its order.
pub(super) fn read(file: &Path) -> Result<toml::Table, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::in_file(file, "there is no such file; check the path"),
        _ => Failure::in_file(file, format!("cannot be read ({error}); check its permissions")),
    })?;
    let text = text.trim_start_matches('\u{feff}');
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Failure::in_file(file, format!("line {line}: not TOML ({}): correct it", error.message()))
    })
}

/// The file's entries as flags, without those that the command line overrides.
fn flags(train: &Command, given: &ArgMatches, file: &Path) -> Result<Vec<OsString>, Failure> {
    let table = read(file)?;
    let is_given = |name: &str| {
        train
            .get_arguments()
            .find(|arg| has_name(arg, name))
            .is_some_and(|arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine))
    };
    let mut flags = Vec::new();
    for (key, value) in &table {
        let flag = flag_of(key);
        let Some(arg) = argument(train, key) else {
            return Err(Failure::in_file(file, unknown(train, key)));
        };
        let overridden = is_given(flag)
            || (EITHER.contains(&flag) && EITHER.iter().any(|other| is_given(other)))
            || (OF_PRIVATE.contains(&flag) && is_given("not-private"));
        if !overridden {
            let values = values(arg, &beside(file, key, value)).ok_or_else(|| {
                Failure::in_file(
                    file,
                    format!("`{key} = {value}`: give a text, a number, true or false, or a list of them"),
                )
            })?;
            if let Some(reason) = refuses(train, &values) {
                return Err(Failure::in_file(file, format!("`{key} = {value}`: {reason}")));
            }
            flags.extend(values.into_iter().map(OsString::from));
        }
    }
    Ok(flags)
}

/// `value`, and if it is a path, as seen from the working directory.
fn beside(file: &Path, key: &str, value: &Value) -> Value {
    let Value::String(text) = value else { return value.clone() };
    let folder = file.parent().unwrap_or(Path::new(""));
    let (kind, path) = match text.split_once(':') {
        Some((kind, path)) if DATA.contains(&key) => (format!("{kind}:"), path),
        _ if READ.contains(&key) || WRITTEN.contains(&key) => (String::new(), text.as_str()),
        _ => return value.clone(),
    };
    let moved = folder.join(path);
    let here = !WRITTEN.contains(&key) && !moved.exists() && Path::new(path).exists();
    Value::String(if here { text.clone() } else { format!("{kind}{}", moved.display()) })
}

/// The message about a key that is no flag.
pub(super) fn unknown(train: &Command, key: &str) -> String {
    let with_dashes = key.replace('_', "-");
    if with_dashes != key && argument(train, &with_dashes).is_some() {
        return format!("unknown key `{key}`: write it `{with_dashes}`");
    }
    format!("unknown key `{key}`: damper train --help lists the flags")
}

/// The parser's message about the value of one flag.
pub(super) fn refuses(train: &Command, flags: &[String]) -> Option<String> {
    let line = ["train".to_owned()].into_iter().chain(flags.iter().cloned());
    let error = train.clone().try_get_matches_from(line).err()?;
    // Required flags that are missing here are found missing, or not, by the parse of the whole line.
    matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::UnknownArgument | ErrorKind::TooManyValues
    )
    .then(|| plain(&error))
}

/// The first paragraph of clap's message, in one line.
pub(super) fn plain(error: &clap::Error) -> String {
    let text = plain_words(&error.to_string());
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// The flag, without its dashes, that a key stands for.
fn flag_of(key: &str) -> &str {
    if key == "model" { "model-file" } else { key }
}

/// The argument of `train` that a key stands for.
pub(super) fn argument<'a>(train: &'a Command, key: &str) -> Option<&'a Arg> {
    train.get_arguments().find(|arg| has_name(arg, flag_of(key)))
}

/// Returns true if `name` is the argument's flag, or one that it had before.
fn has_name(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// `--flag=value`, as often as needed.
pub(super) fn values(arg: &Arg, value: &Value) -> Option<Vec<String>> {
    let flag = arg.get_long()?;
    let one = |text: &str| format!("--{flag}={text}");
    Some(match (value, arg.get_action()) {
        (Value::Boolean(true), ArgAction::SetTrue) => vec![format!("--{flag}")],
        (Value::Boolean(false), ArgAction::SetTrue) => vec![],
        (Value::Array(items), ArgAction::Append) => {
            items.iter().map(|item| scalar(item).map(|text| one(&text))).collect::<Option<_>>()?
        }
        (Value::Array(items), _) => {
            vec![one(&items.iter().map(scalar).collect::<Option<Vec<_>>>()?.join(","))]
        }
        _ => vec![one(&scalar(value)?)],
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}
