//! The command inside another program: settings and arrays go in, and what the command answers comes back. What it would print while it
//! works is told to a listener.
//!
//! A call belongs to its thread. Any number of threads may call at once, and a listener may call again. Nothing of the process is changed: not
//! the working folder, the environment, signals or standard output.

mod python_words;

use super::caller::{Call, take_answer};
use super::{Cli, Failure, command_line, flags, near_miss, one_line, parse, resume, run, run_file};
use clap::CommandFactory;
use damper_data::Memory;
use std::ffi::OsString;

pub use super::caller::Listener;
pub use python_words::python_words;

/// A setting of a call, by its flag without dashes.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// A flag that is there, or not.
    Switch(bool),
    /// A value.
    One(String),
    /// Several: a flag that may be repeated, or has a comma between its values.
    Many(Vec<String>),
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// What is wrong and what to do, in the command's words.
    pub message: String,
}

/// Runs `damper NAME ARG... --SETTING=VALUE...`, whose `memory:train` and `memory:test` are `memory`. Returns what the subcommand
/// answers: with the setting `json`, a JSON object.
///
/// # Errors
///
/// As the command's, in its words.
pub fn call(
    name: &str,
    args: &[String],
    settings: &[(String, Setting)],
    memory: Option<Memory>,
    listener: Box<dyn Listener>,
) -> Result<String, CallError> {
    flags::register(&Cli::command());
    let _call = Call::begin(listener, memory);
    let of = |failure: Failure| CallError { message: one_line(&failure.message) };
    let line = line(name, args, settings).map_err(|message| CallError { message })?;
    let mut expanded = resume::expand(&Cli::command(), line).map_err(of)?;
    expanded.args = command_line::registered(expanded.args);
    let line = expanded.rebased(&Cli::command());
    let command = parse(line.clone()).map_err(|error| misused(error, &line))?;
    command.and_then(run).map_err(of)?;
    Ok(take_answer())
}

/// The command line of a call.
fn line(name: &str, args: &[String], settings: &[(String, Setting)]) -> Result<Vec<OsString>, String> {
    let cli = Cli::command();
    let subcommand = cli.find_subcommand(name).ok_or_else(|| format!("{name}: no such subcommand"))?;
    let mut line: Vec<String> = ["damper".to_owned(), name.to_owned()].into();
    for (key, setting) in settings {
        let flag = key.replace('_', "-");
        let value = match setting {
            Setting::Switch(on) => toml::Value::Boolean(*on),
            Setting::One(text) => toml::Value::String(text.clone()),
            Setting::Many(texts) => texts.iter().cloned().map(toml::Value::String).collect::<Vec<_>>().into(),
        };
        match run_file::argument(subcommand, &flag) {
            Some(arg) => line.extend(run_file::values(arg, &value).ok_or_else(|| format!("--{flag}: no such value"))?),
            // The parser says what may be meant.
            None => line.push(format!("--{flag}")),
        }
    }
    if !args.is_empty() {
        line.push("--".into());
        line.extend(args.iter().cloned());
    }
    Ok(line.into_iter().map(OsString::from).collect())
}

/// A wrong command line, in one line.
fn misused(mut error: clap::Error, line: &[OsString]) -> CallError {
    near_miss::suggest(&mut error, &Cli::command(), line);
    let text = super::plain_words(&error.to_string());
    let tips = text.split("\n\n").filter(|paragraph| paragraph.trim_start().starts_with("tip: "));
    let tips = tips.map(|paragraph| format!("; {}", one_line(paragraph)));
    CallError { message: run_file::plain(&error) + &tips.collect::<String>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Heard(Rc<RefCell<Vec<Value>>>);

    impl Listener for Heard {
        fn event(&mut self, event: &Value) {
            self.0.borrow_mut().push(event.clone());
        }

        fn stop(&mut self) -> bool {
            false
        }
    }

    fn called(name: &str, settings: &[(&str, Setting)]) -> Result<String, String> {
        let settings: Vec<_> = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        call(name, &[], &settings, None, Box::new(Heard(Rc::default()))).map_err(|error| error.message)
    }

    fn one(text: &str) -> Setting {
        Setting::One(text.into())
    }

    #[test]
    fn answers_come_back() {
        let mut settings = vec![
            ("noise_multiplier", one("1.1")),
            ("sampling_rate", one("0.01")),
            ("steps", one("100")),
            ("delta", one("1e-5")),
        ];
        settings.push(("json", Setting::Switch(true)));
        let answer = called("epsilon", &settings).unwrap();
        let found: Value = serde_json::from_str(&answer).unwrap();
        assert!(found["epsilon"].as_f64().unwrap() > 0.1, "{answer}");
        assert!(!super::super::caller::is_active());
    }

    /// Calls the command while it listens, and stops a run at once.
    struct Calling(Rc<RefCell<Vec<String>>>);

    impl Listener for Calling {
        fn event(&mut self, event: &Value) {
            let settings = [("noise_multiplier", "1"), ("sampling_rate", "0.01"), ("steps", "9"), ("delta", "1e-5")];
            let settings: Vec<_> = settings.map(|(key, value)| (key, one(value))).into();
            self.0.borrow_mut().push(format!("{} {}", event["event"], called("epsilon", &settings).is_ok()));
        }

        fn stop(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn a_listener_may_call() {
        let heard = Rc::new(RefCell::new(Vec::new()));
        command_line::registered(["d".into(), "around".into()].into());
        {
            let _call = Call::begin(Box::new(Calling(heard.clone())), None);
            command_line::registered(["d".into(), "outer".into()].into());
            assert!(super::super::caller::tell("step", serde_json::json!({})));
            assert_eq!(command_line::line::command(), ["damper", "outer"]);
        }
        assert_eq!(*heard.borrow(), ["\"step\" true"]);
        assert_eq!(command_line::line::command(), ["damper", "around"]);
    }

    #[test]
    fn errors_name_flags_and_what_is_meant() {
        let message = called("epsilon", &[("noise_multiplier", one("-1")), ("sampling_rate", one("0.1"))]).unwrap_err();
        assert!(message.contains("--steps"), "{message}");
        let message = called("train", &[("max_grad_norm", one("1"))]).unwrap_err();
        assert!(message.contains("--max-grad-norm") && message.contains("--clip"), "{message}");
        assert!(called("dance", &[]).unwrap_err().contains("dance"));
    }
}
