//! Flags for the settings that the core's methods describe.

use super::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use damper_core::described::{Description, Flag, Kind, Setting, UNSET};
use damper_train::{Choice, Slot};
use std::iter::zip;
use std::marker::PhantomData;

/// The name of a method, one of its settings that has a flag, and the default.
type Read = (&'static str, &'static Setting, f64);

/// Earlier names of flags.
const ALIASES: [(&str, &str); 3] =
    [("histogram_range", "range"), ("clip_lr", "threshold-rate"), ("auto_clip_gamma", "stability")];

/// The names that fill a slot, without what has a flag of its own: a floored denominator, or no bias correction.
pub(super) fn names<S: Slot>() -> PossibleValuesParser {
    let names = S::METHODS.iter().flat_map(|of| of.names).map(|(name, _)| *name);
    names.filter(|name| !name.ends_with("-floored")).collect::<Vec<_>>().into()
}

/// A method with its values in a text.
pub(super) fn schedule<S: Slot>(text: &str) -> Result<Choice<S>, String> {
    Choice::parse(text).ok_or_else(|| {
        let form = |of: &Description| {
            let (name, defaults) = of.names[0];
            let values: Vec<&str> = of.settings.iter().filter_map(|setting| Some(setting.flag?.value)).collect();
            if defaults.contains(&UNSET) { format!("{name}:{}", values.join(",")) } else { name.to_owned() }
        };
        let forms: Vec<String> = S::METHODS.iter().map(form).collect();
        let (last, others) = forms.split_last().expect("a slot has methods");
        format!("give {} or {last}", others.join(", "))
    })
}

/// What the methods of a slot read. Adam with weight decay is adamw.
fn read<S: Slot>() -> impl Iterator<Item = Read> {
    let named =
        S::METHODS.iter().flat_map(|of| of.names.iter().map(|(name, defaults)| (of.settings, *name, *defaults)));
    let read =
        named.flat_map(|(settings, name, defaults)| zip(settings, defaults).map(move |(of, to)| (name, of, *to)));
    read.filter(|(name, setting, _)| {
        setting.flag.is_some_and(|flag| !flag.help.is_empty()) && (*name, setting.name) != ("adam", "weight_decay")
    })
}

/// What this flag sets.
fn set_by<S: Slot>(flag: Flag) -> impl Iterator<Item = Read> {
    read::<S>().filter(move |(_, setting, _)| setting.flag == Some(flag))
}

/// Each flag once.
fn flags<S: Slot>() -> Vec<Flag> {
    let mut flags = Vec::new();
    for flag in read::<S>().filter_map(|(_, setting, _)| setting.flag) {
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags
}

fn long(flag: Flag) -> String {
    flag.name.replace('_', "-")
}

/// Numbers with commas between them.
fn list(text: &str, count: usize) -> Result<Vec<f64>, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == count).ok_or_else(|| match count {
        2 => "give two, with a comma between them".into(),
        _ => "give three numbers, with commas between them".into(),
    })
}

/// What reads a value of this flag: the values of its settings, none where the default is named.
fn parser<S: Slot>(flag: Flag) -> ValueParser {
    if let Some((word, _)) = flag.value.split_once('|') {
        return ValueParser::new(move |text: &str| match text.parse::<f64>() {
            _ if text == word => Ok(vec![]),
            Ok(number) => Ok(vec![number]),
            Err(_) => Err(format!("give `{word}` or a number")),
        });
    }
    let count = flag.value.split(',').count();
    if count > 1 {
        return ValueParser::new(move |text: &str| list(text, count));
    }
    let mut kinds = set_by::<S>(flag).map(|(_, setting, _)| setting.kind);
    match kinds.next() {
        Some(Kind::Named(names, _)) => {
            let index = move |name: String| vec![f64::from(u8::from(name == names[1]))];
            PossibleValuesParser::new(names).map(index).into()
        }
        Some(Kind::Whole) => ValueParser::new(|text: &str| text.parse().map(|value: usize| vec![value as f64])),
        Some(Kind::F32) if kinds.all(|kind| kind == Kind::F32) => {
            ValueParser::new(|text: &str| text.parse().map(|value: f32| vec![f64::from(value)]))
        }
        _ => ValueParser::new(|text: &str| text.parse().map(|value: f64| vec![value])),
    }
}

fn argument<S: Slot>(flag: Flag) -> Arg {
    let argument = Arg::new(flag.name).long(long(flag)).help(flag.help);
    if flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    // A setting that is read where one of this flag is not.
    let cases = || set_by::<S>(flag).map(|(_, setting, _)| setting.when);
    let others =
        read::<S>().filter(|(_, of, _)| cases().any(|(case, is_one)| of.when == (case, !is_one) && !case.is_empty()));
    let others = others.filter_map(|(_, setting, _)| setting.flag).map(|flag| flag.name);
    let alias = ALIASES.iter().find(|(name, _)| *name == flag.name).map(|(_, alias)| *alias);
    argument
        .value_name(flag.value)
        .allow_hyphen_values(flag.value.contains([',', '|']))
        .value_parser(parser::<S>(flag))
        .conflicts_with_all(others.collect::<Vec<_>>())
        .aliases(alias)
}

/// The flags of a slot that were given, with their values.
#[derive(Debug)]
pub(super) struct SettingArgs<S>(Vec<(Flag, Vec<f64>)>, PhantomData<S>);

impl<S: Slot> SettingArgs<S> {
    /// Returns true if this flag was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(flag, _)| flag.name == name)
    }

    /// The settings that were given. A flag that the method `name` does not read would be a misunderstanding; `chosen` is the value of
    /// the flag `by` that chose it.
    pub(super) fn of(&self, name: &str, (by, chosen): (&str, &str)) -> Result<Vec<(&'static str, f64)>, Failure> {
        let mut given = Vec::new();
        for (flag, values) in &self.0 {
            let settings: Vec<Read> = set_by::<S>(*flag).filter(|(of, ..)| *of == name).collect();
            if settings.is_empty() {
                let mut others = set_by::<S>(*flag).filter(|(.., default)| *default != 0.0).chain(set_by::<S>(*flag));
                let other = others.next().map_or(name, |(name, ..)| name);
                let problem = format!("--{by} {chosen} has none; leave it out, or use --{by} {other}");
                return Err(Failure::new(format!("--{}: {problem}", long(*flag))));
            }
            given.extend(zip(settings, values).map(|((_, setting, _), value)| (setting.name, *value)));
        }
        Ok(given)
    }
}

impl<S: Slot> Args for SettingArgs<S> {
    fn augment_args(command: Command) -> Command {
        command.args(flags::<S>().into_iter().map(argument::<S>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Slot> FromArgMatches for SettingArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |flag: Flag| match flag.value {
            "" => matches.get_flag(flag.name).then(|| vec![1.0]),
            _ => matches.get_one::<Vec<f64>>(flag.name).cloned(),
        };
        let given = flags::<S>().into_iter().filter_map(|flag| Some((flag, given(flag)?)));
        Ok(Self(given.collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
