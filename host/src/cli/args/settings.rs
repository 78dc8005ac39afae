//! Flags for the settings of choices that have a name. A type's schema defines the flags. The documentation of a field
//! is the help of its flag. `x-value` is the placeholder of its value, empty for a switch. `x-flag` is a name other
//! than the field's, `x-alias` an earlier name, and `x-conflict` a flag that it excludes. A field without `x-value` has
//! no flag.

use crate::cli::Failure;
use crate::cli::args::flags::number::widened;
use crate::cli::args::text::written;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use damper_train::ByName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use toml::{Table, Value};

/// A field that a flag sets, in the settings of a named choice.
#[derive(Clone, Debug)]
struct Field {
    /// The named choice, and the field's default.
    of: &'static str,
    default: Option<Value>,
    name: String,
    schema: Json,
}

impl Field {
    /// Returns a text that the schema adds to the field.
    fn note(&self, note: &str) -> Option<&str> {
        self.schema.get(note)?.as_str()
    }

    fn flag(&self) -> String {
        self.note("x-flag").unwrap_or(&self.name).replace('_', "-")
    }

    /// Returns the placeholder of its value.
    fn value(&self) -> &str {
        self.note("x-value").unwrap_or_default()
    }

    /// Returns true if its default is not empty.
    fn is_used(&self) -> bool {
        match &self.default {
            None | Some(Value::Boolean(false) | Value::Integer(0)) => false,
            Some(Value::Float(number)) => *number != 0.0,
            Some(_) => true,
        }
    }

    /// Returns the word for the default in `WORD|VALUE`.
    fn word(&self) -> &str {
        self.value().split_once('|').map_or("", |(word, _)| word)
    }

    /// Returns the schema of its key in run files. A list may be one text, and a word may stand for the default.
    fn written_schema(&self) -> Json {
        let mut schema = self.schema.clone();
        let takes_text = self.value().contains(',') || !self.word().is_empty();
        if let (true, Some(types)) = (takes_text, schema.get_mut("type")) {
            let mut all: Vec<Json> = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
            all.push("string".into());
            *types = all.into();
        }
        schema
    }

    /// Returns the words that it accepts, if it accepts words.
    fn words(&self) -> Option<Vec<String>> {
        let words = self.schema.get("oneOf")?.as_array()?;
        Some(words.iter().filter_map(|word| Some(word["const"].as_str()?.to_owned())).collect())
    }

    /// Converts the value to that of its variant. `None` for the word that stands for the default.
    fn read(&self, value: Value, described: &Described) -> Result<Option<Value>, String> {
        let count = self.value().split(',').count();
        if self.value().is_empty() {
            return if value.is_bool() { Ok(Some(value)) } else { Err("give true or false".into()) };
        }
        if let Some(words) = self.words() {
            let is_word = value.as_str().is_some_and(|value| words.iter().any(|word| word == value));
            return if is_word { Ok(Some(value)) } else { Err(format!("use {}", words.join(" or "))) };
        }
        if count > 1 {
            return list(&written(&value).ok_or("give numbers")?, count).map(Some);
        }
        match value {
            Value::String(word) if !word.is_empty() && word == self.word() => Ok(None),
            Value::Integer(number) if described.is_float(self) => Ok(Some(Value::Float(number as f64))),
            Value::Float(_) if described.is_float(self) => Ok(Some(value)),
            Value::Integer(0..) => Ok(Some(value)),
            Value::Integer(_) | Value::Float(_) => Err("give a whole number".into()),
            _ if self.word().is_empty() => Err("give a number".into()),
            _ => Err(format!("give `{}` or a number", self.word())),
        }
    }
}

/// Adam with weight decay is adamw.
const NOT_READ: (&str, &str) = ("adam", "weight_decay");

/// Flags of a type's settings, and the help of its names.
struct Described {
    /// Fields with flags, by name.
    fields: Vec<Field>,
    help: Vec<(&'static str, String)>,
}

impl Described {
    fn new<T: ByName>() -> Self {
        let schema = schema_for!(T);
        let variants = schema.get("oneOf").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut described = Self { fields: vec![], help: vec![] };
        for (of, usual) in T::named() {
            let usual = Table::try_from(usual).expect("settings are a table");
            let kind = |variant: &&Json| {
                variant.pointer("/properties/name/const").and_then(Json::as_str) == usual["name"].as_str()
            };
            let variant = variants.iter().find(kind).expect("the schema has the variant");
            described.help.push((of, variant["description"].as_str().unwrap_or_default().to_owned()));
            for (name, schema) in variant["properties"].as_object().into_iter().flatten() {
                if schema.get("x-value").is_some() && (of, name.as_str()) != NOT_READ {
                    let default = usual.get(name).cloned();
                    described.fields.push(Field { of, default, name: name.clone(), schema: schema.clone() });
                }
            }
        }
        described
    }

    /// Returns the description of `T`. It is computed once, because each start of the command needs it often.
    fn of<T: ByName + 'static>() -> Arc<Self> {
        static MADE: Mutex<BTreeMap<TypeId, Arc<Described>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(Self::new::<T>())).clone()
    }

    /// Returns true if the flag accepts non-integer numbers.
    fn is_float(&self, field: &Field) -> bool {
        !self.set_by(field).all(|of| of.note("format").is_some_and(|format| format.starts_with("uint")))
    }

    /// Returns the fields that `flag` sets.
    fn set_by(&self, flag: &Field) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.flag() == flag.flag())
    }

    /// Returns the first field of each flag.
    fn flags(&self) -> impl Iterator<Item = &Field> {
        let is_first = |(at, field): &(usize, &Field)| !self.fields[..*at].iter().any(|of| of.flag() == field.flag());
        self.fields.iter().enumerate().filter(is_first).map(|(_, field)| field)
    }
}

/// Returns the help of the choice with this name.
pub(in crate::cli) fn help<T: ByName + 'static>(name: &str) -> Option<String> {
    Described::of::<T>().help.iter().find(|(of, _)| *of == name).map(|(_, help)| help.clone())
}

/// Returns a parser for the names.
pub(in crate::cli) fn names<T: ByName>() -> PossibleValuesParser {
    T::named().into_iter().map(|(name, _)| name).collect::<Vec<_>>().into()
}

/// Reads a name in a run file.
pub(in crate::cli) fn name_of<'de, D: Deserializer<'de>, T: ByName>(from: D) -> Result<Option<String>, D::Error> {
    name_among(from, T::named().into_iter().map(|(name, _)| name))
}

/// Reads one of these names in a run file.
pub(in crate::cli) fn name_among<'de, D: Deserializer<'de>>(
    from: D,
    names: impl Iterator<Item = &'static str> + Clone,
) -> Result<Option<String>, D::Error> {
    let given = String::deserialize(from)?;
    if names.clone().any(|name| name == given) {
        return Ok(Some(given));
    }
    Err(D::Error::custom(format!("use one of {}", names.collect::<Vec<_>>().join(", "))))
}

/// Parses numbers separated by commas.
fn list(text: &str, count: usize) -> Result<Value, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == count).ok_or_else(|| match count {
        2 => "give two, with a comma between them".to_owned(),
        _ => "give three numbers, with commas between them".into(),
    })?;
    Ok(Value::Array(numbers.into_iter().map(Value::Float).collect()))
}

/// Returns the parser of this flag's value. `None` if the value is the word for the default.
fn parser(field: &Field, described: &Described) -> ValueParser {
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
    if let Some(words) = field.words() {
        return PossibleValuesParser::new(words).map(|word| Some(Value::String(word))).into();
    }
    if described.set_by(field).all(|of| of.note("format").is_some_and(|format| format.starts_with("uint"))) {
        return ValueParser::new(|text: &str| text.parse().map(|value: u32| Some(Value::Integer(value.into()))));
    }
    if described.set_by(field).all(|of| of.note("format") == Some("float")) {
        return ValueParser::new(|text: &str| text.parse().map(|value: f32| Some(Value::Float(widened(value)))));
    }
    ValueParser::new(|text: &str| text.parse().map(|value: f64| Some(Value::Float(value))))
}

fn argument(field: &Field, described: &Described) -> Arg {
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
        .value_parser(parser(field, described))
        .conflicts_with_all(field.note("x-conflict").map(str::to_owned))
        .aliases(field.note("x-alias").map(str::to_owned))
}

/// Given flags, with their values.
#[derive(Clone, Debug)]
pub(in crate::cli) struct SettingArgs<T>(Vec<(Field, Option<Value>)>, PhantomData<T>);

impl<T: ByName + 'static> SettingArgs<T> {
    /// Returns true if this flag was given.
    pub(in crate::cli) fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|(field, _)| field.flag() == flag)
    }

    /// Returns the number that this flag gives.
    pub(in crate::cli) fn number(&self, flag: &str) -> Option<f64> {
        let (_, value) = self.0.iter().find(|(field, _)| field.flag() == flag)?;
        value.as_ref()?.as_float()
    }

    /// Returns the choice `name` with the given settings and `more`. A given flag that it does not use is an error.
    /// `chosen` is the value of the flag `by` that selected it.
    pub(in crate::cli) fn of(&self, name: &str, (by, chosen): (&str, &str), more: Table) -> Result<T, Failure> {
        let (mut given, described) = (more, Described::of::<T>());
        for (flag, value) in &self.0 {
            let set: Vec<&Field> = described.set_by(flag).collect();
            let Some(field) = set.iter().find(|field| field.of == name) else {
                let other = set.iter().find(|field| field.is_used()).or(set.first()).map_or(name, |field| field.of);
                let by = by.replace('-', "_");
                let problem = format!("`{by}` {chosen} has none; leave it out, or use `{by}` {other}");
                return Err(Failure::usage(format!("`{}`: {problem}", flag.flag().replace('-', "_"))));
            };
            if let Some(value) = value {
                given.insert(field.name.clone(), value.clone());
            }
        }
        Ok(T::with(name, given)?)
    }
}

impl<T: ByName + 'static> Args for SettingArgs<T> {
    fn augment_args(command: Command) -> Command {
        let described = Described::of::<T>();
        command.args(described.flags().map(|field| argument(field, &described)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: ByName + 'static> FromArgMatches for SettingArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |field: &Field| {
            let id = field.flag().replace('-', "_");
            match field.value() {
                "" => matches.get_flag(&id).then_some(Some(Value::Boolean(true))),
                _ => matches.get_one::<Option<Value>>(&id).cloned(),
            }
        };
        let described = Described::of::<T>();
        let given = described.flags().filter_map(|field| Some((field.clone(), given(field)?)));
        Ok(Self(given.collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T> Default for SettingArgs<T> {
    fn default() -> Self {
        Self(vec![], PhantomData)
    }
}

impl<T> Serialize for SettingArgs<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (field, value) in &self.0 {
            match value {
                Some(value) => map.serialize_entry(&field.flag(), value)?,
                None => map.serialize_entry(&field.flag(), field.word())?,
            }
        }
        map.end()
    }
}

/// Reads only its own keys.
impl<'de, T: ByName + 'static> Deserialize<'de> for SettingArgs<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut table = Table::deserialize(from)?;
        let described = Described::of::<T>();
        let mut given = Vec::new();
        for field in described.flags() {
            match table.remove(&field.flag()) {
                None => {}
                Some(Value::Boolean(false)) if field.value().is_empty() => {}
                Some(value) => given.push((field.clone(), field.read(value, &described).map_err(D::Error::custom)?)),
            }
        }
        Ok(Self(given, PhantomData))
    }
}

impl<T: ByName + 'static> JsonSchema for SettingArgs<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SettingArgs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let described = Described::of::<T>();
        let properties = described.flags().map(|field| (field.flag(), field.written_schema())).collect();
        json_schema!({ "type": "object", "properties": Json::Object(properties) })
    }
}
