//! Help of `damper train`: one screen, a group of flags (`--help GROUP`), or all (`--help-all`).

use clap::Command;
use std::ffi::OsString;
use std::fmt::Write;

/// Headings of flags without a heading of their own.
const OTHERS: &str = "Run";

/// The first screen. Each flag has its value and a line.
const COMMON: [(&str, &str, &str); 15] = [
    ("data", "PATH", "the samples, instead of DATA"),
    ("test", "FRACTION|PATH", "held-out samples: a share of the rows, or other data"),
    ("label-column", "COLUMN", "the label's column [default: the last]"),
    ("classes", "NAME,...|K", "names of the classes, or their number; public"),
    ("model", "NETWORK", "linear, mlp:64,32, cnn, bag or lstm:64"),
    ("loss", "LOSS", "softmax-cross-entropy, mse, ... [default: the first]"),
    ("epsilon", "E", "the privacy budget of the run; smaller protects more"),
    ("delta", "D", "well below 1 / samples [default: from their number]"),
    ("clip", "C", "largest norm of one sample's gradient"),
    ("batch-size", "B", "expected samples in a step"),
    ("epochs", "N", "passes over the data"),
    ("lr", "L", "learning rate"),
    ("optimizer", "NAME", "adam, sgd, ... [default: adam; with --lr sgd]"),
    ("method", "NAME", "dp-sgd, doppler, disk, adp, ... [default: dp-sgd]"),
    ("out", "DIR", "folder for the outputs [default: next in damper-runs]"),
];

/// The requested part of the help.
enum Asked {
    Screen,
    Group(String),
    All,
}

/// Returns the help that `args` ask for, if they ask for that of `damper train`. `cli` describes the whole command.
///
/// # Errors
///
/// The group is unknown. The message lists the groups.
pub(in crate::cli) fn asked(args: &[OsString], cli: impl FnOnce() -> Command) -> Option<Result<String, String>> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|arg| arg.to_str()).collect();
    let words: Vec<&str> = match words[..] {
        ["help", "train", ref groups @ ..] => ["train", "--help"].iter().chain(groups).copied().collect(),
        _ => words,
    };
    let (&"train", rest) = words.split_first()? else { return None };
    let rest = rest.split(|word| *word == "--").next().unwrap_or_default();
    let asked = rest.iter().enumerate().find_map(|(at, word)| match *word {
        "-h" => Some(Asked::Screen),
        "--help-all" => Some(Asked::All),
        "--help" => Some(match rest.get(at + 1).filter(|next| !next.starts_with('-')) {
            Some(group) => Asked::Group((*group).to_owned()),
            None => Asked::Screen,
        }),
        word => word.strip_prefix("--help=").map(|group| Asked::Group(group.to_owned())),
    })?;
    let train = cli().find_subcommand("train")?.clone();
    Some(match asked {
        Asked::Screen => Ok(screen(&train)),
        Asked::All => Ok(train.after_help(super::train::AFTER_HELP).render_long_help().to_string()),
        Asked::Group(group) => of_group(train, &group),
    })
}

/// Returns the headings of flags in the order of the help.
fn groups(train: &Command) -> Vec<String> {
    let mut all = vec![OTHERS.to_owned()];
    for argument in train.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let heading = argument.get_help_heading().unwrap_or(OTHERS);
        if !all.iter().any(|one| one == heading) {
            all.push(heading.to_owned());
        }
    }
    all
}

/// Returns the names of the groups as they are written after --help.
fn group_names(train: &Command) -> String {
    groups(train).iter().map(|group| group.to_lowercase()).collect::<Vec<_>>().join(", ")
}

/// Returns the flags with this heading.
fn of_group(train: Command, group: &str) -> Result<String, String> {
    let known = group_names(&train);
    let Some(heading) = groups(&train).into_iter().find(|one| one.eq_ignore_ascii_case(group)) else {
        return Err(format!("--help {group}: there is no such group; use one of {known}, or --help-all"));
    };
    let of_group = train.mut_args(|argument| {
        let is_other = argument.get_help_heading().unwrap_or(OTHERS) != heading || argument.is_positional();
        if is_other { argument.hide(true) } else { argument }
    });
    Ok(of_group
        .disable_help_flag(true)
        .override_usage("damper train MODEL.onnx DATA [FLAGS]")
        .render_long_help()
        .to_string())
}

/// Returns the first screen.
fn screen(train: &Command) -> String {
    let mut text = format!("{}\n\n", train.get_about().cloned().unwrap_or_default());
    text += "  damper train MODEL.onnx DATA --epsilon 3        DATA is a file or a folder
  damper train --model linear DATA --epsilon 3    a network by name
  damper train RUN.toml                           a file of flags
  damper train --resume DIR                       goes on after a stop

What is left open has a default, which the run prints with its reason.

";
    for (flag, value, line) in COMMON {
        let _ = writeln!(text, "  {:<22} {line}", format!("--{flag} {value}"));
    }
    let flags = train.get_arguments().filter(|one| !one.is_hide_set() && !one.is_positional()).count();
    let _ = write!(
        text,
        "\nAll {flags} flags: --help-all. Those of a group: --help GROUP, where GROUP is\n  {}\nExamples and more: docs/command.md",
        group_names(train).replace("optimizer, ", "optimizer,\n  ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn helped(line: &str) -> Option<Result<String, String>> {
        let mut cli = Cli::command();
        cli.build();
        asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), || cli)
    }

    #[test]
    fn first_screen_fits() {
        let screen = helped("damper train -h").unwrap().unwrap();
        assert!(screen.lines().count() <= 36, "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
        assert_eq!(helped("damper train m.onnx --help").unwrap().unwrap(), screen);
        assert_eq!(helped("damper help train").unwrap().unwrap(), screen);
        let cli = Cli::command();
        let train = cli.find_subcommand("train").unwrap();
        for (flag, ..) in COMMON {
            assert!(train.get_arguments().any(|one| one.get_long() == Some(flag)), "--{flag}");
        }
    }

    // Each flag is in one group, and all are in the whole help.
    #[test]
    fn groups_divide_the_flags() {
        let all = helped("damper train --help-all").unwrap().unwrap();
        let cli = Cli::command();
        let train = cli.find_subcommand("train").unwrap();
        let texts: Vec<String> = groups(train)
            .iter()
            .map(|group| helped(&format!("damper train --help {group}")).unwrap().unwrap())
            .collect();
        let is_shown =
            |text: &str, flag: &str| text.lines().any(|line| line.trim_start().starts_with(&format!("--{flag}")));
        for argument in train.get_arguments().filter(|one| !one.is_hide_set() && one.get_long().is_some()) {
            let flag = argument.get_long().unwrap();
            let exact = |text: &str| text.split_whitespace().any(|word| word == format!("--{flag}"));
            assert!(is_shown(&all, flag), "--{flag}");
            assert!(texts.iter().any(|text| exact(text)), "--{flag}");
        }
        assert_eq!(helped("damper help train data").unwrap().unwrap(), texts[1]);
        assert!(texts[1].contains("--label-column") && !texts[1].contains("--noise-multiplier <"), "{}", texts[1]);
    }

    #[test]
    fn an_unknown_group_names_the_groups() {
        let problem = helped("damper train --help privcy").unwrap().unwrap_err();
        assert!(problem.contains("privacy"), "{problem}");
        assert!(helped("damper inspect --help").is_none());
        assert!(helped("damper train m.onnx d.csv").is_none());
        assert!(helped("damper train -- --help").is_none());
    }
}
