//! The operators that have a rule: one ordered table.

use super::node::{Ruled, Site};
use super::shape::{
    constant, conv, einsum, elementwise, expand, matmul, norm, pad, pool, reduce, reshape, resize, select, softmax,
    transpose,
};

/// A rule: the shapes of a node's outputs, and where the batch lies in them.
pub(super) type Rule = fn(&Site<'_>) -> Ruled;

/// Operator and rule, sorted by operator.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("Add", elementwise::binary),
    ("AveragePool", pool::window),
    ("Cast", constant::cast),
    ("Concat", select::concat),
    ("ConstantOfShape", constant::of_shape),
    ("Conv", conv::conv),
    ("ConvTranspose", conv::conv_transpose),
    ("Div", elementwise::binary),
    ("Dropout", elementwise::dropout),
    ("Einsum", einsum::einsum),
    ("Exp", elementwise::unary),
    ("Expand", expand::expand),
    ("Flatten", reshape::flatten),
    ("Gather", select::gather),
    ("Gemm", matmul::gemm),
    ("GlobalAveragePool", pool::global),
    ("GlobalMaxPool", pool::global),
    ("GroupNormalization", norm::group),
    ("Identity", elementwise::identity),
    ("InstanceNormalization", norm::instance),
    ("LRN", norm::local_response),
    ("LeakyRelu", elementwise::unary),
    ("Log", elementwise::unary),
    ("LogSoftmax", softmax::softmax),
    ("MatMul", matmul::matmul),
    ("MaxPool", pool::window),
    ("Mul", elementwise::binary),
    ("Neg", elementwise::unary),
    ("Pad", pad::pad),
    ("Pow", elementwise::binary),
    ("Reciprocal", elementwise::unary),
    ("ReduceMean", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("Relu", elementwise::unary),
    ("Reshape", reshape::reshape),
    ("Resize", resize::resize),
    ("Shape", constant::shape),
    ("Sigmoid", elementwise::unary),
    ("Size", constant::size),
    ("Slice", select::slice),
    ("Softmax", softmax::softmax),
    ("Sqrt", elementwise::unary),
    ("Squeeze", reshape::squeeze),
    ("Sub", elementwise::binary),
    ("Tanh", elementwise::unary),
    ("Transpose", transpose::transpose),
    ("Unsqueeze", reshape::unsqueeze),
];

/// The rule of `op`.
pub(super) fn find(op: &str) -> Option<Rule> {
    RULES.iter().find(|(name, _)| *name == op).map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_each_operator_once() {
        for pair in RULES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
        }
    }
}
