//! Flags for the settings that the core's optimizers describe.

use crate::cli::{Failure, pair};
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use damper_core::described::{Flag, Kind, Setting};
use damper_core::optimizer::OPTIMIZERS;
use std::iter::zip;

/// The name of an optimizer, one of its settings that has a flag, and the default.
type Read = (&'static str, &'static Setting, f64);

/// What `--optimizer` takes. A floored denominator has a flag of its own.
pub(super) fn names() -> PossibleValuesParser {
    let names = OPTIMIZERS.iter().flat_map(|of| of.names).map(|(name, _)| *name);
    names.filter(|name| !name.ends_with("-floored")).collect::<Vec<_>>().into()
}

/// What the optimizers read. Adam with weight decay is adamw.
fn read() -> impl Iterator<Item = Read> {
    let named =
        OPTIMIZERS.iter().flat_map(|of| of.names.iter().map(|(name, defaults)| (of.settings, *name, *defaults)));
    let read =
        named.flat_map(|(settings, name, defaults)| zip(settings, defaults).map(move |(of, to)| (name, of, *to)));
    read.filter(|(name, setting, _)| setting.flag.is_some() && (*name, setting.name) != ("adam", "weight_decay"))
}

/// What this flag sets.
fn set_by(flag: Flag) -> impl Iterator<Item = Read> {
    read().filter(move |(_, setting, _)| setting.flag == Some(flag))
}

/// Each flag once.
fn flags() -> Vec<Flag> {
    let mut flags = Vec::new();
    for flag in read().filter_map(|(_, setting, _)| setting.flag) {
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags
}

fn long(flag: Flag) -> String {
    flag.name.replace('_', "-")
}

fn argument(flag: Flag) -> Arg {
    let argument = Arg::new(flag.name).long(long(flag)).help(flag.help);
    if flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let is_pair = flag.value.contains(',');
    let parser = if is_pair {
        ValueParser::new(|text: &str| pair(text).map(|(first, second): (f64, f64)| vec![first, second]))
    } else if set_by(flag).all(|(_, setting, _)| setting.kind == Kind::F32) {
        ValueParser::new(|text: &str| text.parse().map(|value: f32| vec![f64::from(value)]))
    } else {
        ValueParser::new(|text: &str| text.parse().map(|value: f64| vec![value]))
    };
    argument.value_name(flag.value).allow_hyphen_values(is_pair).value_parser(parser)
}

/// The flags that were given, with their values.
#[derive(Debug)]
pub(super) struct SettingArgs(Vec<(Flag, Vec<f64>)>);

impl SettingArgs {
    /// Returns true if this flag was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(flag, _)| flag.name == name)
    }

    /// The settings that were given. A flag that this optimizer does not read would be a misunderstanding.
    pub(super) fn of(&self, optimizer: &str) -> Result<Vec<(&'static str, f64)>, Failure> {
        let mut given = Vec::new();
        for (flag, values) in &self.0 {
            let settings: Vec<Read> = set_by(*flag).filter(|(name, ..)| *name == optimizer).collect();
            if settings.is_empty() {
                let other = set_by(*flag).find(|(.., default)| *default != 0.0).map_or("sgd", |(name, ..)| name);
                let problem = format!("--optimizer {optimizer} has none; leave it out, or use --optimizer {other}");
                return Err(Failure::new(format!("--{}: {problem}", long(*flag))));
            }
            given.extend(zip(settings, values).map(|((_, setting, _), value)| (setting.name, *value)));
        }
        Ok(given)
    }
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        command.args(flags().into_iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |flag: Flag| match flag.value {
            "" => matches.get_flag(flag.name).then(|| vec![1.0]),
            _ => matches.get_one::<Vec<f64>>(flag.name).cloned(),
        };
        Ok(Self(flags().into_iter().filter_map(|flag| Some((flag, given(flag)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
