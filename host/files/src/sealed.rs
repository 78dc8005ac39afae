//! JSON with its own digest: `{"NAME":VALUE,"sha256":"…"}`.

use crate::sha256;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns the line of `value` under `name`, with the digest of `before` and of the value's text, and the digest.
pub fn line(name: &str, before: &str, value: &impl Serialize) -> (String, String) {
    let text = text(value);
    let digest = sha256(format!("{before}{text}").as_bytes());
    (format!("{{\"{name}\":{text},\"sha256\":\"{digest}\"}}\n"), digest)
}

/// Parses the value of `bytes`, a [`line()`] of `name` with an empty `before`. The error describes the damage. Values
/// must not contain 32-bit floats, because parsing goes through 64-bit floats.
///
/// # Errors
///
/// It is not such a line, or its digest does not match.
pub fn read<T: Serialize + DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, String> {
    let mut fields: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let (value, sha256) = (fields.remove(name), fields.remove("sha256"));
    let (Some(value), Some(sha256), true) = (value, sha256, fields.is_empty()) else {
        return Err(format!("it has other fields than `{name}` and `sha256`"));
    };
    let value: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if sha256 == Value::String(digest(&value)) { Ok(value) } else { Err("its digest does not match".into()) }
}

/// Returns the SHA-256 of the text of `value`, in hexadecimal.
pub fn digest(value: &impl Serialize) -> String {
    sha256(text(value).as_bytes())
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is sealed has string keys and finite numbers")
}
