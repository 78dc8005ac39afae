//! Settings of the libraries as flags.
//!
//! A message of a library has a setting by its library name, in backticks: `noise_multiplier`. A name from a file is in
//! quotes: 'noise_multiplier'.

pub(in crate::cli) mod number;

use clap::Command;
use std::collections::HashSet;
use std::sync::OnceLock;

/// Settings with a different flag. The flag of any other setting is its name with `-` instead of `_`.
const RENAMED: [(&str, &str); 4] = [
    ("decay", "lr-schedule"),
    ("evaluate_every", "eval-every"),
    ("loss_bound", "test-loss-bound"),
    ("norm_step", "adagrad-norm"),
];

/// Flags of all subcommands, without dashes.
static FLAGS: OnceLock<HashSet<String>> = OnceLock::new();

/// Registers the flags of this command. Before that, no setting has a flag.
pub(in crate::cli) fn register(command: &Command) {
    fn longs(command: &Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(|argument| argument.get_long().map(String::from));
        own.chain(command.get_subcommands().flat_map(longs)).collect()
    }
    FLAGS.get_or_init(|| longs(command).into_iter().collect());
}

/// Returns true if a subcommand has this flag.
pub(in crate::cli) fn is_known(flag: &str) -> bool {
    FLAGS.get().is_some_and(|flags| flags.contains(flag))
}

/// Returns the flag of a setting, if it has one.
fn flag_of(setting: &str) -> Option<String> {
    let renamed = RENAMED.iter().find(|(name, _)| *name == setting);
    let flag = renamed.map_or_else(|| setting.replace('_', "-"), |(_, flag)| (*flag).to_owned());
    (!setting.contains('-') && is_known(&flag)).then(|| format!("--{flag}"))
}

/// Replaces settings by flags in a library's message.
pub(in crate::cli) fn with_flags(message: &str) -> String {
    let (mut shown, mut rest) = (String::new(), message);
    while let Some((before, after)) = rest.split_once('`') {
        shown += before;
        match after.split_once('`').and_then(|(name, after)| Some((flag_of(name)?, after))) {
            Some((flag, after)) => (shown, rest) = (shown + &flag, after),
            None => (shown, rest) = (shown + "`", after),
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::fs;
    use std::path::{Path, PathBuf};

    const LIBRARIES: [&str; 13] = [
        "../accounting",
        "onnx",
        "edit",
        "grad",
        "runtime",
        "data",
        "budget",
        "design",
        "federation",
        "train",
        "federated",
        "audit",
        "report",
    ];
    /// Keys of reports.
    const OTHERS: [&str; 1] = ["seconds"];
    /// Files in which filters and runs of a comparison are recorded as command lines, or pages have styles.
    const COMMAND_LINES: [&str; 5] =
        ["design/src/coefficients.rs", "compare/plan.rs", "compare/plot.rs", "compare/html.rs", "compare/search.rs"];

    #[test]
    fn settings_are_shown_as_flags() {
        register(&Cli::command());
        assert_eq!(with_flags("`noise_multiplier` 0: 'epsilon' `x` `lr"), "--noise-multiplier 0: 'epsilon' `x` `lr");
        assert_eq!(with_flags("a ` b `delta`, `batch-size`"), "a ` b --delta, `batch-size`");
    }

    /// Returns the source files of a crate, without test files.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
        let is_code = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "rs")
                && !path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
        };
        found.filter(is_code).collect()
    }

    /// A library's code, without comments and tests, names no flag. Every setting that it names has a flag.
    #[test]
    fn libraries_name_settings_not_flags() {
        register(&Cli::command());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let is_name = |name: &&str| {
            let is_part = |c| matches!(c, 'a'..='z' | '0'..='9' | '_');
            !name.is_empty() && name.chars().all(is_part) && !OTHERS.contains(name)
        };
        let mut settings = HashSet::new();
        for file in LIBRARIES.iter().flat_map(|library| sources(&here.join(library).join("src"))) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            for line in &code {
                let is_flag = line.split("--").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
                assert!(!is_flag || COMMAND_LINES.iter().any(|end| file.ends_with(end)), "{}: {line}", file.display());
                let quoted = line.split('`').skip(1).step_by(2);
                settings.extend(quoted.filter(is_name).map(String::from));
            }
            let code = code.join(" ");
            let arms = if file.ends_with("train/src/error.rs") { "=> " } else { "SettingError::new(" };
            for before in ["SettingError::new(", "refuse(", "positive(", arms] {
                let literals = code
                    .split(before)
                    .skip(1)
                    .filter_map(|rest| rest.trim_start_matches([' ', '{']).strip_prefix('"')?.split('"').next());
                settings.extend(literals.filter(is_name).map(String::from));
            }
        }
        for setting in &settings {
            assert!(flag_of(setting).is_some(), "{setting} has no flag");
        }
        for (setting, _) in RENAMED {
            assert!(settings.contains(setting), "no library names {setting}");
        }
        assert!(settings.len() > 80, "{settings:?}");
    }
}
