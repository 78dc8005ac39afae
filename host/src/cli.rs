//! The command line: one file for each subcommand, which parses, plans and runs.
//!
//! Standard output has only the answer. Progress, warnings and errors go to standard error. An error is one line that
//! names the file, node, flag or row at fault, and the fix. With --json it is also one object on standard output:
//! {"error": "..."}. Exit codes: 0 for success, 1 for an error, 2 for a wrong command line or value of a flag, 3 for a
//! defect in damper.

mod args;
mod command;
mod commands;
pub mod embed;
mod session;

use args::flags::number::number32;
use args::given::{Fault, Runs};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use commands::{Cli, Command};
use damper_train::TrainError;
use session::output::{
    Failure, FailureKind, answer, answer_json, complain, complain_in_json, fail_in_json, one_line, plain, plain_text,
    plain_with_tips, say, say_default, say_of_data, warn,
};
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

/// Runs the command line `args`, starting with the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        if !damper_data::catches_panics() {
            complain(&format!("a defect in damper, please report it: {info}"));
        }
    }));
    let args: Vec<OsString> = args.into_iter().collect();
    match panic::catch_unwind(|| parse_and_run(args)) {
        Ok(code) => code,
        Err(_) => ExitCode::from(3),
    }
}

fn parse_and_run(args: Vec<OsString>) -> ExitCode {
    args::flags::register(&Cli::command());
    let in_json = args.iter().any(|arg| arg == "--json");
    match args::help::asked(&args, built) {
        None => {}
        Some(Ok(help)) => {
            return answer(&help).map_or_else(|failure| ExitCode::from(failure.say(false)), |()| ExitCode::SUCCESS);
        }
        Some(Err(problem)) => return ExitCode::from(Failure::usage(problem).say(in_json)),
    }
    let (in_json, result) = match parse(&args) {
        Ok(command) => (in_json || command.answers_in_json(), run(command)),
        Err(Fault::Failure(failure)) => (in_json, Err(failure)),
        Err(Fault::Usage(error)) => return misused(*error, &args, in_json),
    };
    match result {
        Ok(code) => code,
        Err(failure) => ExitCode::from(failure.say(in_json)),
    }
}

/// Returns the description of the command and its subcommands.
fn built() -> clap::Command {
    let mut cli = Cli::command();
    cli.build();
    cli
}

/// Parses the subcommand in `args`, with the settings of the run file or the run that they name.
fn parse(args: &[OsString]) -> Result<Command, Fault> {
    let mut cli = built();
    let matches = cli.clone().try_get_matches_from(args)?;
    let Cli { mut command } = Cli::from_arg_matches(&matches)?;
    session::command_line::register(args);
    let (mut path, mut described, mut given) = (vec![], &mut cli, &matches);
    while let Some((name, matches)) = given.subcommand() {
        path.push(name.to_owned());
        described = described.find_subcommand_mut(name).expect("the subcommand was parsed");
        given = matches;
    }
    let is_one = matches!(command, Command::Train(_));
    match command.train_args() {
        Some(args) => {
            let runs = if is_one { Runs::One } else { Runs::Several };
            if let Some(settings) = args::given::complete(args, runs, described)? {
                session::command_line::register_words(&path, args, &settings, described);
            }
        }
        None => {
            let is_given = |id: &&clap::Id| given.value_source(id.as_str()) == Some(ValueSource::CommandLine);
            let keys =
                given.ids().filter(is_given).map(|id| (id.as_str().replace('_', "-"), toml::Value::Boolean(true)));
            args::given::check_model(&keys.collect(), described)?;
        }
    }
    Ok(command)
}

/// Reports a wrong command line. Help and version are not errors: clap gives them the code 0 and standard output.
fn misused(mut error: clap::Error, args: &[OsString], in_json: bool) -> ExitCode {
    args::near_miss::suggest(&mut error, &Cli::command(), args);
    let text = error.to_string();
    let said = plain_text(&error);
    if said == text {
        let _ = error.print();
    } else {
        let _ = write!(io::stderr(), "{said}");
    }
    if in_json && error.exit_code() != 0 {
        complain_in_json(&plain_with_tips(&error));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    damper_core::self_test().map_err(TrainError::from)?;
    match command {
        Command::Train(args) => return command::train::run(&args),
        Command::Gradients(args) => return command::models::gradients::run(&args),
        Command::Compare(args) => command::compare::run(&args),
        Command::Evaluate(args) => {
            command::evaluate::run(&args, built().find_subcommand("train").expect("there is a subcommand train"))
        }
        Command::Derive(args) => command::models::derive::run(&args),
        Command::Compile(args) => command::models::compile::run(&args),
        Command::Config(args) => command::config::run(&args),
        Command::Export(args) => command::models::export::run(&args),
        Command::Init(args) => command::models::init::run(&args),
        Command::Fix(args) => command::models::fix::run(&args),
        Command::Inspect(args) => command::models::inspect::run(&args),
        Command::Epsilon(args) => command::planning::epsilon::run(&args),
        Command::Calibrate(args) => command::planning::calibrate::run(&args),
        Command::Factorize(args) => command::planning::factorize::run(&args),
        Command::Budget(args) => command::planning::budget::run(&args),
        Command::Filter(args) => command::planning::filter::run(&args),
        Command::Federation(args) => command::federation::run(&args),
        Command::Aggregate(args) => command::aggregate::run(&args),
        Command::Replay(args) => command::replay::run(&args),
        Command::Report(args) => command::report::run(&args),
        Command::Audit(args) => command::audit::run(&args),
        Command::Completions(args) => command::shell::completions(&args, Cli::command()),
        Command::Man(args) => command::shell::man(&args, Cli::command()),
    }
    .map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_word_of_help() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
