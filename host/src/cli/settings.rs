//! Flags for the settings of what is chosen by name. A type's schema says them: the documentation of a field is the help of its flag,
//! `x-value` the placeholder of its value (empty for a switch), `x-flag` a name other than the field's, `x-alias` an earlier name, and
//! `x-conflict` the flag that it excludes. A field without `x-value` has no flag.

use super::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use damper_train::ByName;
use schemars::schema_for;
use serde_json::Value as Json;
use std::marker::PhantomData;
use toml::{Table, Value};

/// A field that a flag sets, of what one name chooses.
#[derive(Clone, Debug)]
struct Field {
    /// What the name chooses, and the field's default.
    of: &'static str,
    default: Option<Value>,
    name: String,
    schema: Json,
}

impl Field {
    /// A text that the schema adds to the field.
    fn note(&self, note: &str) -> Option<&str> {
        self.schema.get(note)?.as_str()
    }

    fn flag(&self) -> String {
        self.note("x-flag").unwrap_or(&self.name).replace('_', "-")
    }

    /// The placeholder of its value.
    fn value(&self) -> &str {
        self.note("x-value").unwrap_or_default()
    }

    /// Returns true if a default is more than nothing.
    fn is_used(&self) -> bool {
        match &self.default {
            None | Some(Value::Boolean(false) | Value::Integer(0)) => false,
            Some(Value::Float(number)) => *number != 0.0,
            Some(_) => true,
        }
    }
}

/// Adam with weight decay is adamw.
const NOT_READ: (&str, &str) = ("adam", "weight_decay");

/// Each name with its default settings, and the schema of its variant.
fn variants<T: ByName>() -> Vec<(&'static str, Table, Json)> {
    let schema = schema_for!(T);
    let variants = schema.get("oneOf").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &Value| {
        let is_own =
            |variant: &&Json| variant.pointer("/properties/name/const").and_then(Json::as_str) == kind.as_str();
        variants.iter().find(is_own).cloned().unwrap_or_default()
    };
    let named = T::named().into_iter();
    named
        .map(|(name, usual)| {
            let usual = Table::try_from(usual).expect("settings are a table");
            let variant = of(&usual["name"]);
            (name, usual, variant)
        })
        .collect()
}

/// The fields with flags, name by name.
fn fields<T: ByName>() -> Vec<Field> {
    let mut fields = Vec::new();
    for (of, usual, variant) in variants::<T>() {
        for (name, schema) in variant["properties"].as_object().into_iter().flatten() {
            if schema.get("x-value").is_some() && (of, name.as_str()) != NOT_READ {
                fields.push(Field {
                    of,
                    default: usual.get(name).cloned(),
                    name: name.clone(),
                    schema: schema.clone(),
                });
            }
        }
    }
    fields
}

/// The help of what this name chooses.
pub(super) fn help<T: ByName>(name: &str) -> Option<String> {
    let (_, _, variant) = variants::<T>().into_iter().find(|(of, ..)| *of == name)?;
    Some(variant["description"].as_str()?.to_owned())
}

/// The names.
pub(super) fn names<T: ByName>() -> PossibleValuesParser {
    T::named().into_iter().map(|(name, _)| name).collect::<Vec<_>>().into()
}

/// The first field of each flag.
fn flags<T: ByName>() -> Vec<Field> {
    let mut flags: Vec<Field> = Vec::new();
    for field in fields::<T>() {
        if !flags.iter().any(|of| of.flag() == field.flag()) {
            flags.push(field);
        }
    }
    flags
}

/// Numbers with commas between them.
fn list(text: &str, count: usize) -> Result<Value, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == count).ok_or_else(|| match count {
        2 => "give two, with a comma between them".to_owned(),
        _ => "give three numbers, with commas between them".into(),
    })?;
    Ok(Value::Array(numbers.into_iter().map(Value::Float).collect()))
}

/// What reads a value of this flag; none where the default is named.
fn parser<T: ByName>(field: &Field) -> ValueParser {
    let placeholder = field.value();
    if let Some((word, _)) = placeholder.split_once('|') {
        let word = word.to_owned();
        return ValueParser::new(move |text: &str| match text.parse() {
            _ if text == word => Ok(None),
            Ok(number) => Ok(Some(Value::Float(number))),
            Err(_) => Err(format!("give `{word}` or a number")),
        });
    }
    let count = placeholder.split(',').count();
    if count > 1 {
        return ValueParser::new(move |text: &str| list(text, count).map(Some));
    }
    if let Some(words) = field.schema.get("oneOf").and_then(Json::as_array) {
        let words: Vec<String> = words.iter().filter_map(|word| Some(word["const"].as_str()?.to_owned())).collect();
        return PossibleValuesParser::new(words).map(|word| Some(Value::String(word))).into();
    }
    let set: Vec<Field> = fields::<T>().into_iter().filter(|of| of.flag() == field.flag()).collect();
    if set.iter().all(|of| of.note("format").is_some_and(|format| format.starts_with("uint"))) {
        return ValueParser::new(|text: &str| text.parse().map(|value: u32| Some(Value::Integer(value.into()))));
    }
    if set.iter().all(|of| of.note("format") == Some("float")) {
        return ValueParser::new(|text: &str| text.parse().map(|value: f32| Some(Value::Float(value.into()))));
    }
    ValueParser::new(|text: &str| text.parse().map(|value: f64| Some(Value::Float(value))))
}

fn argument<T: ByName>(field: &Field) -> Arg {
    let id = field.flag().replace('-', "_");
    let help = field.note("description").unwrap_or_default().replace('\n', " ");
    let argument = Arg::new(id).long(field.flag()).help(help);
    let placeholder = field.value().to_owned();
    if placeholder.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    argument
        .allow_hyphen_values(placeholder.contains([',', '|']))
        .value_name(placeholder)
        .value_parser(parser::<T>(field))
        .conflicts_with_all(field.note("x-conflict").map(str::to_owned))
        .aliases(field.note("x-alias").map(str::to_owned))
}

/// The flags that were given, with their values.
#[derive(Debug)]
pub(super) struct SettingArgs<T>(Vec<(Field, Option<Value>)>, PhantomData<T>);

impl<T: ByName> SettingArgs<T> {
    /// Returns true if this flag was given.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|(field, _)| field.flag() == flag)
    }

    /// What `name` chooses, with the settings that were given and `more`. A flag that it does not read would be a misunderstanding;
    /// `chosen` is the value of the flag `by` that chose it.
    pub(super) fn of(&self, name: &str, (by, chosen): (&str, &str), more: Table) -> Result<T, Failure> {
        let mut given = more;
        for (flag, value) in &self.0 {
            let set: Vec<Field> = fields::<T>().into_iter().filter(|field| field.flag() == flag.flag()).collect();
            let Some(field) = set.iter().find(|field| field.of == name) else {
                let other = set.iter().find(|field| field.is_used()).or(set.first()).map_or(name, |field| field.of);
                let problem = format!("--{by} {chosen} has none; leave it out, or use --{by} {other}");
                return Err(Failure::new(format!("--{}: {problem}", flag.flag())));
            };
            if let Some(value) = value {
                given.insert(field.name.clone(), value.clone());
            }
        }
        T::with(name, given).map_err(|error| Failure::new(error.to_string()))
    }
}

impl<T: ByName> Args for SettingArgs<T> {
    fn augment_args(command: Command) -> Command {
        command.args(flags::<T>().iter().map(argument::<T>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: ByName> FromArgMatches for SettingArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |field: &Field| {
            let id = field.flag().replace('-', "_");
            match field.value() {
                "" => matches.get_flag(&id).then_some(Some(Value::Boolean(true))),
                _ => matches.get_one::<Option<Value>>(&id).cloned(),
            }
        };
        let given = flags::<T>().into_iter().filter_map(|field| given(&field).map(|value| (field, value)));
        Ok(Self(given.collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
