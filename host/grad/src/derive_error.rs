//! Why a graph was not differentiated.

use damper_onnx::graph::Node;

/// A graph, or a node of it, that cannot be differentiated, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {reason}; {remedy}")]
pub struct DeriveError {
    /// `node NAME (OP)`, or the part of the model or the setting at fault.
    pub at: String,
    /// The fault.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
    /// True if a setting is at fault.
    of_setting: bool,
}

impl DeriveError {
    /// An error at `at`.
    pub fn new(at: impl Into<String>, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at: at.into(), reason: reason.into(), remedy: remedy.into(), of_setting: false }
    }

    /// An error in a setting. `setting` is its field.
    pub fn of_setting(setting: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { of_setting: true, ..Self::new(format!("`{setting}`"), reason, remedy) }
    }

    /// Returns true if a setting is at fault.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        self.of_setting
    }

    /// An error at `node`.
    pub fn of(node: &Node, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(format!("node {} ({})", node.name, node.op), reason, remedy)
    }

    /// An operator that no rule knows.
    pub fn no_rule(node: &Node) -> Self {
        let remedy = "freeze the parameters it depends on, or replace it by operators that have a rule";
        Self::of(node, format!("there is no rule to differentiate {}", node.op), remedy)
    }
}
