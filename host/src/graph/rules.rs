//! The operators that have a rule: one ordered table.

use super::node::{Ruled, Site};
use super::shape::{
    arg, constant, conv, cumulative, depth, elementwise, expand, gather_nd, join, matmul, norm, pool, reduce, reshape,
    select, softmax, tile, transpose, triangle,
};

/// A rule: the shapes of a node's outputs, and where the batch lies in them.
pub(super) type Rule = fn(&Site<'_>) -> Ruled;

/// Operator and rule, sorted by operator.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("Add", elementwise::binary),
    ("ArgMax", arg::arg),
    ("ArgMin", arg::arg),
    ("AveragePool", pool::window),
    ("Cast", constant::cast),
    ("Concat", join::concat),
    ("ConstantOfShape", constant::of_shape),
    ("Conv", conv::conv),
    ("CumSum", cumulative::cumulative),
    ("DepthToSpace", depth::to_space),
    ("Div", elementwise::binary),
    ("Dropout", elementwise::dropout),
    ("Exp", elementwise::unary),
    ("Expand", expand::expand),
    ("EyeLike", constant::eye_like),
    ("Flatten", reshape::flatten),
    ("Gather", select::gather),
    ("GatherElements", select::gather_elements),
    ("GatherND", gather_nd::gather_nd),
    ("Gemm", matmul::gemm),
    ("GlobalAveragePool", pool::global),
    ("GroupNormalization", norm::group),
    ("Identity", elementwise::identity),
    ("InstanceNormalization", norm::instance),
    ("LeakyRelu", elementwise::unary),
    ("Log", elementwise::unary),
    ("LogSoftmax", softmax::softmax),
    ("MatMul", matmul::matmul),
    ("MaxPool", pool::window),
    ("Mul", elementwise::binary),
    ("Neg", elementwise::unary),
    ("OneHot", arg::one_hot),
    ("Pow", elementwise::binary),
    ("Reciprocal", elementwise::unary),
    ("ReduceMean", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("Relu", elementwise::unary),
    ("Reshape", reshape::reshape),
    ("Shape", constant::shape),
    ("Sigmoid", elementwise::unary),
    ("Size", constant::size),
    ("Slice", select::slice),
    ("Softmax", softmax::softmax),
    ("SpaceToDepth", depth::to_depth),
    ("Split", select::split),
    ("Sqrt", elementwise::unary),
    ("Squeeze", reshape::squeeze),
    ("Sub", elementwise::binary),
    ("Tanh", elementwise::unary),
    ("Tile", tile::tile),
    ("Transpose", transpose::transpose),
    ("Trilu", triangle::triangle),
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
