//! What audits of the run found, if any ran: their verdicts and figures, as `damper audit` wrote them.

use serde::Serialize;
use serde_json::{Map, Value};

/// The empirical audit with canaries.
pub(super) const CANARY: &str = "audit-canary.json";
/// Record and replay on neighbouring data.
pub(super) const NEIGHBOURS: &str = "audit-neighbours.json";

/// The most figures of an audit that are shown, and the longest text of one.
const FIGURES: usize = 40;
const LENGTH: usize = 400;

/// An audit's outcome.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Audit {
    /// The file that it is from.
    pub file: &'static str,
    /// Whether the claim stood.
    pub passed: bool,
    /// Its verdict, in words.
    pub verdict: String,
    /// What else it says, figure by figure.
    pub figures: Map<String, Value>,
}

impl Audit {
    /// What an audit's file says.
    ///
    /// # Errors
    ///
    /// It gives no verdict.
    pub(super) fn new(file: &'static str, said: Map<String, Value>) -> Result<Self, String> {
        let Some(passed) = said.get("passed").and_then(Value::as_bool) else {
            return Err(
                "has no `passed`, true or false: it is no audit's result; run damper audit again, or remove it".into(),
            );
        };
        let verdict = match said.get("verdict").and_then(Value::as_str) {
            Some(verdict) => verdict.chars().take(LENGTH).collect(),
            None if passed => "passed".into(),
            None => "failed".into(),
        };
        let plain = |(key, value): (String, Value)| {
            let shown = match &value {
                Value::Bool(_) | Value::Number(_) => true,
                Value::String(text) => text.chars().count() <= LENGTH,
                _ => false,
            };
            (shown && !matches!(&*key, "passed" | "verdict")).then_some((key, value))
        };
        Ok(Self { file, passed, verdict, figures: said.into_iter().filter_map(plain).take(FIGURES).collect() })
    }
}
