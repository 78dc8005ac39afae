//! Error of a graph that cannot be differentiated.

use damper_onnx::graph::Node;

/// Error of a graph or node that cannot be differentiated, with the fix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {reason}; {remedy}")]
pub struct DeriveError {
    /// Location: `node NAME (OP)`, the part of the model, or the setting at fault.
    pub at: String,
    /// Description of the fault.
    pub reason: String,
    /// Suggested fix.
    pub remedy: String,
    /// True if a setting is at fault.
    of_setting: bool,
}

impl DeriveError {
    /// Error at the location `at`.
    pub fn new(at: impl Into<String>, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at: at.into(), reason: reason.into(), remedy: remedy.into(), of_setting: false }
    }

    /// Error of the setting with the field name `setting`.
    pub fn of_setting(setting: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { of_setting: true, ..Self::new(format!("`{setting}`"), reason, remedy) }
    }

    /// Returns true if a setting is at fault.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        self.of_setting
    }

    /// Error of `node`.
    pub fn of(node: &Node, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(format!("node {} ({})", node.name, node.op), reason, remedy)
    }

    /// Error of an operator without a rule.
    pub fn no_rule(node: &Node) -> Self {
        let remedy = "freeze the parameters it depends on, or replace it by operators that have a rule";
        Self::of(node, format!("there is no rule to differentiate {}", node.op), remedy)
    }
}
