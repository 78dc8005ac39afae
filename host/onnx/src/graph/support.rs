//! Operator support, without a graph, for `damper inspect`.

use super::{refused, rules};

/// Support of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Support {
    /// There is a rule, which may still reject a node that mixes samples.
    Ruled,
    /// Never supported: reason and fix.
    Refused(String),
    /// No rule exists.
    Unknown,
}

/// Returns the support of operator `op` of `domain`.
pub fn support(domain: &str, op: &str) -> Support {
    if let Some(refused) = refused::find(domain, op) {
        return Support::Refused(format!("{}; {}", refused.reason, refused.remedy));
    }
    // Constants are folded before any rule is applied.
    let is_ruled = matches!(domain, "" | "ai.onnx") && (op == "Constant" || rules::find(op).is_some());
    if is_ruled { Support::Ruled } else { Support::Unknown }
}

/// Returns the names of the operators that have a rule, in alphabetical order.
pub fn operators() -> impl Iterator<Item = &'static str> {
    rules::RULES.iter().map(|(op, _)| *op)
}

/// Returns the names of the operators that are never accepted, in alphabetical order.
pub fn refused_operators() -> impl Iterator<Item = &'static str> {
    refused::REFUSED.iter().map(|refused| refused.op)
}

#[cfg(test)]
mod tests {
    use super::*;

    // An operator has a rule, a reason for its rejection, or is unknown.
    #[test]
    fn operator_is_ruled_rejected_or_unknown() {
        assert_eq!(support("", "Conv"), Support::Ruled);
        assert_eq!(support("ai.onnx", "Constant"), Support::Ruled);
        assert!(matches!(support("", "BatchNormalization"), Support::Refused(why) if why.contains("GroupNorm")));
        assert_eq!(support("", "Det"), Support::Unknown);
        assert_eq!(support("com.microsoft", "Conv"), Support::Unknown);
        assert!(
            matches!(support("ai.onnx.ml", "TreeEnsembleClassifier"), Support::Refused(why) if why.contains("trees"))
        );
        assert_eq!(support("ai.onnx.ml", "Conv"), Support::Unknown);
    }
}
