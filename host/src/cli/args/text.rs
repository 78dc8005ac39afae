//! Settings in text form: `8:crop4,flip`, `2GiB`, `MEAN,STD`. A flag, a run file and a program use the same text, and a
//! record of the settings keeps it unchanged.

use crate::cli::args::flags::number::pair;
use crate::cli::args::given::Given;
use clap::builder::{ValueParser, ValueParserFactory};
use damper_data::{ChannelLayout, Normalize, OnBadRow, Resize, TestSource, TextTask};
use damper_grad::Readout;
use damper_runtime::{Choice, Operators};
use damper_train::{DecayChoice, NoiseChoice, NoiseCorrelation};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ops::Deref;
use std::str::FromStr;
use toml::Value;

/// Conversion from text.
pub(in crate::cli) trait FromText: Sized {
    /// Converts a text.
    ///
    /// # Errors
    ///
    /// The text is invalid. The error is the fix.
    fn from_text(text: &str) -> Result<Self, String>;
}

/// A value, and its source text.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Text<T> {
    text: String,
    value: T,
}

impl<T> Deref for Text<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: FromText> FromStr for Text<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), value: T::from_text(text)? })
    }
}

impl<T: FromText + Clone + Send + Sync + 'static> ValueParserFactory for Text<T> {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        ValueParser::new(|text: &str| text.parse::<Self>())
    }
}

impl<T> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = written(&Value::deserialize(from)?).ok_or_else(|| D::Error::custom("give a text"))?;
        text.parse().map_err(D::Error::custom)
    }
}

impl<T> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean", "array"] })
    }
}

/// Returns a value of a run file as text. A list becomes items separated by commas. `None` for a table or a date.
pub(in crate::cli) fn written(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(switch) => switch.to_string(),
        Value::Array(items) => items.iter().map(written).collect::<Option<Vec<_>>>()?.join(","),
        Value::Datetime(_) | Value::Table(_) => return None,
    })
}

/// Implements the trait for types with a `FromStr` whose errors are the fix.
macro_rules! parsed {
    ($($type:ty),+ $(,)?) => {
        $(impl FromText for $type {
            fn from_text(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: <$type as FromStr>::Err| error.to_string())
            }
        })+
    };
}

parsed!(
    Choice,
    DecayChoice,
    ChannelLayout,
    NoiseChoice,
    NoiseCorrelation,
    Normalize,
    OnBadRow,
    Operators,
    Readout,
    Resize,
    TestSource,
    TextTask,
);

/// Name or number of a column.
impl FromText for String {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl FromText for (String, String) {
    fn from_text(text: &str) -> Result<Self, String> {
        pair(text)
    }
}

impl FromText for (f64, f64) {
    fn from_text(text: &str) -> Result<Self, String> {
        pair(text)
    }
}

/// Schema of [`one_or_many`].
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[allow(dead_code)] // Only the derived schema reads it.
pub(in crate::cli) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Reads a setting that is given several times, or once as a list. Items are not split: commas are part of them.
pub(in crate::cli) fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let read = |item| T::deserialize(Given(item)).map_err(|wrong| D::Error::custom(wrong.instead("a text")));
    match Value::deserialize(from)? {
        Value::Array(items) => items.into_iter().map(read).collect(),
        one => Ok(vec![read(one)?]),
    }
}
