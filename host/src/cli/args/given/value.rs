//! A value of a setting, which serde reads with typed errors.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use std::fmt;
use toml::{Table, Value};

/// Reason why a value was rejected.
#[derive(Debug)]
pub(in crate::cli) enum WrongValue {
    /// It has another type than the setting.
    Type,
    /// The fix.
    Said(String),
}

impl WrongValue {
    /// Returns the fix as text. `wanted` is the expected type.
    pub(in crate::cli) fn instead(self, wanted: &str) -> String {
        match self {
            Self::Said(text) => text,
            Self::Type => format!("give {wanted}"),
        }
    }
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Type => "another type",
            Self::Said(text) => text,
        })
    }
}

impl std::error::Error for WrongValue {}

impl Error for WrongValue {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Said(text.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::Type
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Said(match given {
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => "give a whole number in its range".into(),
            _ => format!("give {expected}"),
        })
    }

    fn unknown_variant(_: &str, names: &'static [&'static str]) -> Self {
        Self::Said(match names {
            [one] => format!("use {one}"),
            [one, other] => format!("use {one} or {other}"),
            all => format!("use one of {}", all.join(", ")),
        })
    }
}

/// A value to read.
pub(in crate::cli) struct Given(pub(in crate::cli) Value);

impl<'de> IntoDeserializer<'de, WrongValue> for Given {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given {
    type Error = WrongValue;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(switch) => visitor.visit_bool(switch),
            Value::Datetime(time) => visitor.visit_string(time.to_string()),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Given))),
            Value::Table(table) => visitor.visit_map(entries(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &str, visitor: V) -> Result<V::Value, WrongValue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WrongValue> {
        match self.0 {
            Value::String(text) => text.into_deserializer().deserialize_enum(name, names, visitor),
            _ => Err(WrongValue::Type),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}

/// Returns the entries of a table to read.
pub(super) fn entries<'de>(table: Table) -> MapDeserializer<'de, impl Iterator<Item = (String, Given)>, WrongValue> {
    MapDeserializer::new(table.into_iter().map(|(key, value)| (key, Given(value))))
}
