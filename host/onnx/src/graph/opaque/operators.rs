//! Operators of nodes.

use super::super::{Support, support};
use crate::pb::NodeProto;

/// Returns true if the operator has a rule, which may still refuse the node.
pub(super) fn has_rule(node: &NodeProto) -> bool {
    support(&node.domain, &node.op_type) == Support::Ruled
}

/// Name of the operator, with its domain if that is not the standard domain.
pub(in super::super) fn operator(node: &NodeProto) -> String {
    match node.domain.as_str() {
        "" | "ai.onnx" => node.op_type.clone(),
        domain => format!("{domain}.{}", node.op_type),
    }
}
