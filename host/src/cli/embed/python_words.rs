//! Translates the command's messages for Python.

use crate::cli::Cli;
use crate::cli::args::flags;
use clap::CommandFactory;
use std::ops::Range;
use std::path::Path;

/// Characters that end a command in a message.
const ENDS: [char; 5] = [';', ',', '\n', '`', ')'];

/// Returns the range of a shell command in `text`, up to a character that ends it: `damper SUBCOMMAND`, or
/// `pip install`.
fn shell_command(text: &str) -> Option<Range<usize>> {
    let begins = |program: &str, at: usize| {
        let before = text[..at].chars().next_back();
        let words = text[at + program.len()..].strip_prefix(' ').unwrap_or_default();
        let word = words.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap_or_default();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
            && if program == "pip" { word == "install" } else { Cli::command().find_subcommand(word).is_some() }
    };
    let found = ["damper", "pip"].iter().filter_map(|program| {
        let at = text.match_indices(program).map(|(at, _)| at).find(|at| begins(program, *at))?;
        // The folder of a run may have brackets in its name.
        let rest = &text[at..];
        let ends = if rest.starts_with(RESUME) { &ENDS[..3] } else { &ENDS };
        Some(at..at + rest.find(ends).unwrap_or(rest.len()))
    });
    found.min_by_key(|range| range.start)
}

/// Start of the command that resumes a run.
const RESUME: &str = "damper train --resume ";

/// Translates a shell command to Python, if Python has it. Only runs that `damper.fit` started have a module to resume.
fn python_command(command: &str) -> String {
    match command.strip_prefix(RESUME).map(str::trim_end) {
        Some(run) if Path::new(run).join("checkpoint/module.onnx").is_file() => format!("damper.resume({run:?})"),
        _ => command.to_owned(),
    }
}

/// Translates the command's message: flags become arguments, and subcommands become functions. Shell commands keep
/// their dashes, and so does text that is not a flag. `given` are the arguments of the call.
#[must_use]
pub fn python_words(message: &str, given: &[String]) -> String {
    flags::register(&Cli::command());
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find("--") {
        if let Some(command) = shell_command(rest).filter(|command| command.start <= at) {
            text += &rest[..command.start];
            text += &python_command(&rest[command.clone()]);
            rest = &rest[command.end..];
            continue;
        }
        let (before, flag) = rest.split_at(at);
        let is_part = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-';
        let name: String = flag[2..].chars().take_while(is_part).collect();
        let argument = name.replace('-', "_");
        let is_flag = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-')
            && (flags::is_known(&name) || given.contains(&argument));
        text += before;
        text += if is_flag { &argument } else { &flag[..2 + name.len()] };
        rest = &flag[2 + name.len()..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(message: &str) -> String {
        python_words(message, &["max_grad_norm".into()])
    }

    #[test]
    fn flags_become_arguments() {
        for (said, expected) in [
            ("--noise-multiplier 0: give --lr", "noise_multiplier 0: give lr"),
            (
                "unexpected argument '--max-grad-norm' found; '--clip' exists",
                "unexpected argument 'max_grad_norm' found; 'clip' exists",
            ),
            ("a -- b, a--lr, ---lr", "a -- b, a--lr, ---lr"),
        ] {
            assert_eq!(words(said), expected);
        }
    }

    #[test]
    fn shell_commands_keep_their_dashes() {
        for said in [
            "such as one that damper train --record wrote",
            "make it: damper budget b.json --create NAME --delta D",
            "see `damper epsilon run --json`",
            "(damper train --not-private) has none",
            "keep it: damper train --resume /elsewhere/a--b",
            "build it with --features mpi",
            "`pip install --upgrade onnxruntime-gpu`",
            "damper train --help-all lists them",
        ] {
            assert_eq!(words(said), said);
        }
        assert_eq!(words("damper epsilon DIR --json, or leave out --lr"), "damper epsilon DIR --json, or leave out lr");
        assert_eq!(words("the damper of --lr; damper runs --lr"), "the damper of lr; damper runs lr");
    }

    #[test]
    fn runs_of_python_go_on_in_python() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("a (1)");
        let said = format!("keep it, and go on with damper train --resume {}; --lr", run.display());
        assert_eq!(words(&said), said.replace("--lr", "lr"));
        std::fs::create_dir_all(run.join("checkpoint")).unwrap();
        std::fs::write(run.join("checkpoint/module.onnx"), b"").unwrap();
        assert_eq!(words(&said), format!("keep it, and go on with damper.resume({run:?}); lr"));
    }
}
