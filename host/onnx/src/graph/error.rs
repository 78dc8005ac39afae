//! Why a model is no [`Graph`](super::Graph). Each message is one line that names the cause and the remedy.

use crate::SettingError;

/// A model that cannot be trained. The caller puts the file's name in front.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    /// The model as a whole, an input, or an initializer.
    #[error("{0}")]
    Model(String),
    /// An option.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Patterns of what is not trained match everything.
    #[error(
        "`freeze` leaves nothing to train; use `only` PATTERN to train what matches (damper inspect lists the initializers)"
    )]
    Frozen,
    /// A known offender: an operator that mixes samples, or that is not differentiated yet.
    #[error("node '{node}' ({op}): {reason}; {remedy}")]
    Refused {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// Why it is refused.
        reason: String,
        /// The remedy.
        remedy: String,
    },
    /// An operator that is harmless in itself would mix, permute or count samples here.
    #[error("node '{node}' ({op}) mixes samples: {reason}; {remedy}")]
    Mixes {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The way in which samples would mix.
        reason: String,
        /// The remedy.
        remedy: String,
    },
    /// An operator without a rule.
    #[error(
        "node '{node}': operator {op} has no rule (it reads {feeds}); replace it by operators that have \
         one, or export the model without it"
    )]
    Unsupported {
        /// The node.
        node: String,
        /// Its operator, with the domain where it is not the standard one.
        op: String,
        /// Its inputs.
        feeds: String,
    },
    /// A node that no runtime would accept, or an attribute that has no rule.
    #[error("node '{node}' ({op}): {reason}; check the model with onnx.checker, or export it again")]
    Invalid {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The problem.
        reason: String,
    },
}

impl GraphError {
    /// The same fault, found in a part of node `name` (operator `written`).
    pub(super) fn of(mut self, name: &str, written: &str) -> GraphError {
        if let GraphError::Refused { node, op, .. }
        | GraphError::Mixes { node, op, .. }
        | GraphError::Unsupported { node, op, .. }
        | GraphError::Invalid { node, op, .. } = &mut self
        {
            (*node, *op) = (name.into(), written.into());
        }
        self
    }
}
