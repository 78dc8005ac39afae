//! The command inside another program. The program passes settings and arrays, and gets the command's answer. A
//! listener receives the messages that the command would print.
//!
//! A call belongs to its thread. Several threads may call at once, and a listener may call again. A call does not
//! change the process: neither the working folder, the environment, signals nor standard output.

mod python_words;

use crate::cli::args::flags;
use crate::cli::args::given::{self, Fault, KeyFault, KeyFaultKind, Runs};
use crate::cli::args::near_miss;
use crate::cli::args::text::written;
use crate::cli::commands::Command;
use crate::cli::session::caller::{Call, take_answer};
use crate::cli::session::command_line;
use crate::cli::{Cli, Failure, one_line, parse, plain_with_tips, run};
use clap::CommandFactory;
use damper_data::MemoryArrays;
use std::ffi::OsString;
use toml::{Table, Value};

pub use crate::cli::session::caller::Listener;
pub use python_words::python_words;

/// Error of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandError {
    /// Problem and fix, in the words of the command.
    pub message: String,
}

/// Runs `damper NAME ARG...` with `settings`, which have flags without dashes as keys. `memory` is the data
/// `memory:train` and `memory:test`.
///
/// Returns the answer of the subcommand: with the setting `json`, a JSON object.
///
/// # Errors
///
/// As the command's, in its words.
pub fn call(
    name: &str,
    args: &[String],
    settings: &Table,
    memory: Option<MemoryArrays>,
    listener: Box<dyn Listener>,
) -> Result<String, CommandError> {
    flags::register(&Cli::command());
    let _call = Call::begin(listener, memory);
    let settings: Table = settings.iter().map(|(key, value)| (key.replace('_', "-"), value.clone())).collect();
    let command = if name == "train" { train(args, settings) } else { parse(&line(name, args, &settings)?) };
    let failed = |failure: Failure| CommandError { message: one_line(&failure.message) };
    let command = command.map_err(|fault| match fault {
        Fault::Failure(failure) => failed(failure),
        Fault::Usage(error) => misused(*error, name),
    })?;
    run(command).map_err(failed)?;
    Ok(take_answer())
}

/// Returns the run with these settings.
fn train(args: &[String], mut settings: Table) -> Result<Command, Fault> {
    let mut cli = Cli::command();
    cli.build();
    let described = cli.find_subcommand_mut("train").expect("there is a subcommand train");
    settings.extend(args.iter().map(|model| ("model".to_owned(), Value::String(model.clone()))));
    let resume = settings.remove("resume");
    let mut args = given::of_table(&settings, described).map_err(|KeyFault { key, kind }| match kind {
        // Clap adds the flag that is probably meant.
        KeyFaultKind::Unknown => {
            let line: [OsString; 3] = ["damper".into(), "train".into(), format!("--{key}").into()];
            match Cli::command().try_get_matches_from(&line) {
                Err(error) => Fault::from(error),
                Ok(_) => Failure::usage(format!("--{key}: is no setting")).into(),
            }
        }
        KeyFaultKind::Value(value, problem) => {
            let value = written(&value).unwrap_or_default();
            Failure::usage(format!("--{key} {value}: {problem}")).into()
        }
    })?;
    args.resume = resume.as_ref().and_then(written).map(Into::into);
    let recorded = given::complete(&mut args, Runs::One, described)?.unwrap_or_else(|| given::table_of(&args));
    command_line::register_words(&["train".into()], &args, &recorded, described);
    Ok(Command::Train(Box::new(args)))
}

/// Returns the command line of another subcommand.
fn line(name: &str, args: &[String], settings: &Table) -> Result<Vec<OsString>, CommandError> {
    let cli = Cli::command();
    let Some(described) = cli.find_subcommand(name) else {
        return Err(CommandError { message: format!("{name}: no such subcommand") });
    };
    let flags = given::words(settings, described);
    let args = args.iter().cloned();
    let line = ["damper".to_owned(), name.to_owned()].into_iter().chain(flags).chain(["--".to_owned()]).chain(args);
    Ok(line.map(OsString::from).collect())
}

/// Converts a wrong command line to an error of one line.
fn misused(mut error: clap::Error, name: &str) -> CommandError {
    near_miss::suggest(&mut error, &Cli::command(), &["damper".into(), name.into()]);
    CommandError { message: plain_with_tips(&error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::cell::RefCell;
    use std::rc::Rc;
    use toml::toml;

    struct Heard(Rc<RefCell<Vec<Value>>>);

    impl Listener for Heard {
        fn event(&mut self, event: &Value) {
            self.0.borrow_mut().push(event.clone());
        }

        fn stop(&mut self) -> bool {
            false
        }
    }

    fn called(name: &str, settings: Table) -> Result<String, String> {
        call(name, &[], &settings, None, Box::new(Heard(Rc::default()))).map_err(|error| error.message)
    }

    #[test]
    fn answers_come_back() {
        let settings = toml! {
            noise_multiplier = 1.1
            sampling_rate = 0.01
            steps = 100
            delta = 1e-5
            json = true
        };
        let answer = called("epsilon", settings).unwrap();
        let found: Value = serde_json::from_str(&answer).unwrap();
        assert!(found["epsilon"].as_f64().unwrap() > 0.1, "{answer}");
        assert!(!crate::cli::session::caller::is_active());
    }

    /// A listener that calls the command, and stops a run at once.
    struct Calling(Rc<RefCell<Vec<String>>>);

    impl Listener for Calling {
        fn event(&mut self, event: &Value) {
            let settings = toml! {
                noise_multiplier = 1
                sampling_rate = 0.01
                steps = 9
                delta = 1e-5
            };
            self.0.borrow_mut().push(format!("{} {}", event["event"], called("epsilon", settings).is_ok()));
        }

        fn stop(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn a_listener_may_call() {
        let heard = Rc::new(RefCell::new(Vec::new()));
        command_line::register(&["d".into(), "around".into()]);
        {
            let _call = Call::begin(Box::new(Calling(heard.clone())), None);
            command_line::register(&["d".into(), "outer".into()]);
            assert!(crate::cli::session::caller::tell("step", serde_json::json!({})));
            assert_eq!(command_line::line::command(), ["damper", "outer"]);
        }
        assert_eq!(*heard.borrow(), ["\"step\" true"]);
        assert_eq!(command_line::line::command(), ["damper", "around"]);
    }

    #[test]
    fn errors_name_flags_and_what_is_meant() {
        let message = called("epsilon", toml! { noise_multiplier = -1 }).unwrap_err();
        assert!(message.contains("--steps"), "{message}");
        let message = called("train", toml! { max_grad_norm = 1 }).unwrap_err();
        assert!(message.contains("--max-grad-norm") && message.contains("--clip"), "{message}");
        assert!(called("dance", Table::new()).unwrap_err().contains("dance"));
    }
}
