//! The command line and the versions, as every output folder records them.
//!
//! A command line belongs to the thread that serves its process or call, so concurrent calls each record their own. A
//! thread passes it to the threads that it starts.

pub(in crate::cli) mod line;

use crate::cli::Failure;
use crate::cli::args::given::words;
use crate::cli::args::train::TrainArgs;
use clap::Command;
use damper_report::Software;
use damper_train::files::{self, Access, write};
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use toml::Table;

/// File of the record in a private folder `checkpoint`.
const FILE: &str = "command.json";
/// Placeholder of a value that must not be in an output.
const LEFT_OUT: &str = "(left out)";

#[derive(Serialize)]
struct Record {
    command: Vec<String>,
    versions: Software,
}

/// Stores the command line of this thread's process or call.
pub(in crate::cli) fn register(args: &[OsString]) {
    line::replaced(recorded(args));
}

/// Stores the command line of `damper PATH`, with settings from a file or a program.
pub(in crate::cli) fn register_words(path: &[String], args: &TrainArgs, settings: &Table, described: &Command) {
    let resumed = args.resume.iter().map(|out| format!("--resume={}", out.display()));
    let words = words(settings, described);
    let line = ["damper".to_owned()].into_iter().chain(path.iter().cloned()).chain(resumed).chain(words);
    register(&line.map(OsString::from).collect::<Vec<_>>());
}

/// Writes the command line `command` and the versions to a private folder, before anything is charged there.
pub(in crate::cli) fn write_record(checkpoint: &Path, command: &[String]) -> Result<(), Failure> {
    let record = Record { command: command.to_vec(), versions: Software::current() };
    Ok(write(&checkpoint.join(FILE), files::json(&record)?.as_bytes(), Access::Private)?)
}

/// Returns the command line to record. It omits the counted number of samples if one is declared, the secret path of a
/// recording, and the program's own path.
fn recorded(args: &[OsString]) -> Vec<String> {
    let mut args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Some(program) = args.first_mut() {
        *program = "damper".into();
    }
    leave_out(&mut args, "--record");
    let is_size = |arg: &String| arg == "--dataset-size" || arg.starts_with("--dataset-size=");
    if args.iter().any(is_size) {
        leave_out(&mut args, "--samples");
    }
    args
}

/// Replaces the value of `flag`.
fn leave_out(args: &mut [String], flag: &str) {
    for at in 0..args.len() {
        if args[at] == flag && at + 1 < args.len() {
            args[at + 1] = LEFT_OUT.into();
        } else if args[at].strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')) {
            args[at] = format!("{flag}={LEFT_OUT}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use line::command;

    fn of(line: &str) -> String {
        recorded(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn counted_samples_stay_out() {
        assert_eq!(of("/home/me/damper train --samples 7"), "damper train --samples 7");
        for size in ["--dataset-size 9", "--dataset-size=9"] {
            assert_eq!(
                of(&format!("d train {size} --samples 7 --x")),
                format!("damper train {size} --samples (left out) --x")
            );
            assert_eq!(of(&format!("d train --samples=7 {size}")), format!("damper train --samples=(left out) {size}"));
        }
    }

    #[test]
    fn threads_have_their_own() {
        register(&["d".into(), "one".into()]);
        let other = std::thread::spawn(|| {
            assert_eq!(command(), [""; 0]);
            register(&["d".into(), "two".into()]);
            command()
        });
        assert_eq!(
            (command(), other.join().unwrap()),
            (vec!["damper".into(), "one".into()], vec!["damper".into(), "two".into()])
        );
    }

    #[test]
    fn recordings_place_stays_out() {
        assert_eq!(
            of("d train --record x --record-limit 1GiB"),
            "damper train --record (left out) --record-limit 1GiB"
        );
        assert_eq!(of("d train --record=x"), "damper train --record=(left out)");
    }
}
