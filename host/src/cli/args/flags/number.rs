//! Numbers in flags and run files.

use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Returns the fix for a text that Rust's number parsers reject. `None` for another error.
pub(in crate::cli) fn instead(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<ParseFloatError>() {
        return Some("give a number");
    }
    Some(match error.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::Zero => "give a whole number above 0",
        IntErrorKind::PosOverflow => "give a smaller number",
        IntErrorKind::NegOverflow => "give a larger number",
        _ => "give a whole number",
    })
}

/// Parses two values separated by a comma.
pub(in crate::cli) fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    text.split_once(',')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .ok_or_else(|| "give two, with a comma between them".into())
}

/// Parses a 32-bit number. A value beyond its range is an error, not infinity.
pub(in crate::cli) fn number32(text: &str) -> Result<f32, String> {
    let number: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    // Text is rounded only once.
    within32(number)?;
    text.parse().map_err(|_| "give a number".to_owned())
}

fn within32(number: f64) -> Result<f32, String> {
    let rounded = number as f32;
    if rounded.is_infinite() && number.is_finite() {
        return Err(format!("beyond the largest 32-bit number, {:e}", f32::MAX));
    }
    Ok(rounded)
}

/// A 32-bit number in a run file, with the minimum number of digits.
pub(in crate::cli) mod float32 {
    use super::within32;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::cli) fn serialize<S: Serializer>(given: &Option<f32>, to: S) -> Result<S::Ok, S::Error> {
        given.map(super::widened).serialize(to)
    }

    pub(in crate::cli) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
        f64::deserialize(from).and_then(|number| within32(number).map_err(D::Error::custom)).map(Some)
    }
}

/// Returns the 64-bit number with the same digits, which rounds to `number`.
pub(in crate::cli) fn widened(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}

/// An integer. TOML integers are signed, so numbers from 2^63 are text in a run file.
pub(in crate::cli) mod whole {
    use schemars::JsonSchema;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::error::Error;
    use std::fmt::Display;
    use std::str::FromStr;

    #[derive(Deserialize, JsonSchema)]
    #[schemars(inline)]
    #[serde(untagged)]
    pub(in crate::cli) enum Whole {
        Number(u64),
        Text(String),
    }

    pub(in crate::cli) fn serialize<S: Serializer, T: Display>(given: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        let Some(text) = given.as_ref().map(T::to_string) else { return to.serialize_none() };
        match text.parse::<i64>() {
            Ok(number) => number.serialize(to),
            Err(_) => text.serialize(to),
        }
    }

    pub(in crate::cli) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Error + 'static>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = match Whole::deserialize(from).map_err(|_| D::Error::custom("give a whole number"))? {
            Whole::Number(number) => number.to_string(),
            Whole::Text(text) => text,
        };
        let wrong = |error: T::Err| match super::instead(&error) {
            Some(instead) => D::Error::custom(instead),
            None => D::Error::custom(error),
        };
        text.parse().map(Some).map_err(wrong)
    }
}

/// A path in a run file: text, or bytes if it is not valid text.
pub(in crate::cli) mod path {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use toml::Value;

    /// Returns the path as a value of a run file.
    pub(in crate::cli) fn value(path: &Path) -> Value {
        match path.to_str() {
            Some(text) => text.into(),
            None => path.as_os_str().as_encoded_bytes().iter().map(|byte| i64::from(*byte)).collect::<Vec<_>>().into(),
        }
    }

    pub(in crate::cli) fn serialize<S: Serializer>(given: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        given.as_deref().map(value).serialize(to)
    }

    pub(in crate::cli) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let path = match Value::deserialize(from)? {
            Value::String(text) => text.into(),
            Value::Array(bytes) => of_bytes(&bytes).ok_or_else(|| D::Error::custom("give a text"))?,
            _ => return Err(D::Error::custom("give a text")),
        };
        if path.as_os_str().is_empty() { Err(D::Error::custom("give a path")) } else { Ok(Some(path)) }
    }

    fn of_bytes(bytes: &[Value]) -> Option<PathBuf> {
        let bytes: Vec<u8> = bytes.iter().map(|byte| u8::try_from(byte.as_integer()?).ok()).collect::<Option<_>>()?;
        of_os(bytes).map(PathBuf::from)
    }

    #[cfg(unix)]
    fn of_os(bytes: Vec<u8>) -> Option<OsString> {
        use std::os::unix::ffi::OsStringExt;
        Some(OsString::from_vec(bytes))
    }

    #[cfg(not(unix))]
    fn of_os(bytes: Vec<u8>) -> Option<OsString> {
        String::from_utf8(bytes).ok().map(OsString::from)
    }
}
