//! JSON that holds its own digest: `{"NAME":VALUE,"sha256":"…"}`.

use crate::sha256;
use serde::Serialize;

/// The line of `value` under `name`, with the digest of `before` and of the value's text; and the digest.
pub fn line(name: &str, before: &str, value: &impl Serialize) -> (String, String) {
    let text = text(value);
    let digest = sha256(format!("{before}{text}").as_bytes());
    (format!("{{\"{name}\":{text},\"sha256\":\"{digest}\"}}\n"), digest)
}

/// SHA-256 of the text of `value`, in hexadecimal.
pub fn digest(value: &impl Serialize) -> String {
    sha256(text(value).as_bytes())
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is sealed has string keys and finite numbers")
}
