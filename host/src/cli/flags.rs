//! Settings of the libraries as flags.
//!
//! A library's message has a setting under its name in the library, in backticks: `noise_multiplier`. A name out of a file stands in
//! quotes: 'noise_multiplier'.

use super::Cli;
use clap::{Command, CommandFactory};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Settings and their flags. The flag of any other setting is its name with `-` in the place of `_`.
const RENAMED: [(&str, &str); 4] = [
    ("decay", "lr-schedule"),
    ("evaluate_every", "eval-every"),
    ("loss_bound", "test-loss-bound"),
    ("norm_step", "adagrad-norm"),
];

/// The flags of all subcommands, without dashes.
static FLAGS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    fn longs(command: &Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(|argument| argument.get_long().map(String::from));
        own.chain(command.get_subcommands().flat_map(longs)).collect()
    }
    longs(&Cli::command()).into_iter().collect()
});

/// The flag of a setting, if there is one.
fn flag_of(setting: &str) -> Option<String> {
    let renamed = RENAMED.iter().find(|(name, _)| *name == setting);
    let flag = renamed.map_or_else(|| setting.replace('_', "-"), |(_, flag)| (*flag).to_owned());
    (!setting.contains('-') && FLAGS.contains(&flag)).then(|| format!("--{flag}"))
}

/// A library's message with the flags of the settings.
pub(super) fn with_flags(message: &str) -> String {
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

    #[test]
    fn settings_are_shown_as_flags() {
        assert_eq!(with_flags("`noise_multiplier` 0: 'epsilon' `x` `lr"), "--noise-multiplier 0: 'epsilon' `x` `lr");
        assert_eq!(with_flags("a ` b `delta`, `batch-size`"), "a ` b --delta, `batch-size`");
    }
}
