//! Errors of models that cannot become a [`Graph`](super::Graph). Each message is one line that names the cause and the
//! fix.

use crate::SettingError;

/// Error of a model that cannot be trained. The caller adds the file name at the front.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Fault of the whole model, an input, or an initializer.
    #[error("{0}")]
    Model(String),
    /// Fault of an option.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The patterns of frozen initializers match everything.
    #[error(
        "`freeze` leaves nothing to train; use `only` PATTERN to train what matches (damper inspect lists the initializers)"
    )]
    Frozen,
    /// Operator that always mixes samples, or that has no gradient yet.
    #[error("node '{node}' ({op}): {reason}; {remedy}")]
    Refused {
        /// Name of the node.
        node: String,
        /// Operator type.
        op: String,
        /// Reason for the error.
        reason: String,
        /// Suggested fix.
        remedy: String,
    },
    /// Operator that would mix, permute or count samples in this place.
    #[error("node '{node}' ({op}) mixes samples: {reason}; {remedy}")]
    Mixes {
        /// Name of the node.
        node: String,
        /// Operator type.
        op: String,
        /// Description of the mixing.
        reason: String,
        /// Suggested fix.
        remedy: String,
    },
    /// Operator without a rule.
    #[error(
        "node '{node}': operator {op} has no rule (it reads {feeds}); replace it by operators that have \
         one, or export the model without it"
    )]
    Unsupported {
        /// Name of the node.
        node: String,
        /// Operator, with its domain if that is not the standard domain.
        op: String,
        /// Inputs of the node.
        feeds: String,
    },
    /// The same error, in a model whose last layers can be trained alone.
    #[error("{error}, or train only the layers after it, with {only}")]
    PartlyTrainable {
        /// Error of the node.
        error: Box<GraphError>,
        /// Settings that train the layers after it.
        only: String,
    },
    /// Node that no runtime would accept, or attribute without a rule.
    #[error("node '{node}' ({op}): {reason}; check the model with onnx.checker, or export it again")]
    Invalid {
        /// Name of the node.
        node: String,
        /// Operator type.
        op: String,
        /// Description of the problem.
        reason: String,
    },
}

impl GraphError {
    /// The same error, attributed to node `name` (operator `written`) of which the faulty node is a part.
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
