//! The operators that have a rule: one ordered table.

use super::node::{Ruled, Site};
use super::shape::{
    arg, constant, conv, cumulative, depth, einsum, elementwise, expand, gather_nd, join, matmul, norm, pad, pool,
    recurrent, reduce, reshape, resize, select, softmax, tile, transpose, triangle,
};

/// A rule: the shapes of a node's outputs, and where the batch lies in them.
pub(super) type Rule = fn(&Site<'_>) -> Ruled;

/// Operator and rule, sorted by operator.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", elementwise::signed),
    ("Add", elementwise::binary),
    ("And", elementwise::logic),
    ("ArgMax", arg::arg),
    ("ArgMin", arg::arg),
    ("AveragePool", pool::window),
    ("Cast", constant::cast),
    ("CastLike", constant::cast_like),
    ("Ceil", elementwise::unary),
    ("Celu", elementwise::unary),
    ("Clip", elementwise::clip),
    ("Concat", join::concat),
    ("ConstantOfShape", constant::of_shape),
    ("Conv", conv::conv),
    ("ConvTranspose", conv::conv_transpose),
    ("Cos", elementwise::unary),
    ("CumSum", cumulative::cumulative),
    ("DepthToSpace", depth::to_space),
    ("Div", elementwise::binary),
    ("Dropout", elementwise::dropout),
    ("Einsum", einsum::einsum),
    ("Elu", elementwise::unary),
    ("Equal", elementwise::compare),
    ("Erf", elementwise::unary),
    ("Exp", elementwise::unary),
    ("Expand", expand::expand),
    ("EyeLike", constant::eye_like),
    ("Flatten", reshape::flatten),
    ("Floor", elementwise::unary),
    ("GRU", recurrent::gru),
    ("Gather", select::gather),
    ("GatherElements", select::gather_elements),
    ("GatherND", gather_nd::gather_nd),
    ("Gelu", elementwise::unary),
    ("Gemm", matmul::gemm),
    ("GlobalAveragePool", pool::global),
    ("GlobalMaxPool", pool::global),
    ("Greater", elementwise::compare),
    ("GreaterOrEqual", elementwise::compare),
    ("GroupNormalization", norm::group),
    ("HardSigmoid", elementwise::unary),
    ("HardSwish", elementwise::unary),
    ("Identity", elementwise::identity),
    ("InstanceNormalization", norm::instance),
    ("IsInf", elementwise::probe),
    ("IsNaN", elementwise::probe),
    ("LRN", norm::local_response),
    ("LSTM", recurrent::lstm),
    ("LayerNormalization", norm::layer),
    ("LeakyRelu", elementwise::unary),
    ("Less", elementwise::compare),
    ("LessOrEqual", elementwise::compare),
    ("Log", elementwise::unary),
    ("LogSoftmax", softmax::softmax),
    ("LpNormalization", norm::lp),
    ("MatMul", matmul::matmul),
    ("Max", elementwise::variadic),
    ("MaxPool", pool::window),
    ("Mean", elementwise::variadic),
    ("MeanVarianceNormalization", norm::mean_variance),
    ("Min", elementwise::variadic),
    ("Mish", elementwise::unary),
    ("Mod", elementwise::binary),
    ("Mul", elementwise::binary),
    ("Neg", elementwise::signed),
    ("Not", elementwise::not),
    ("OneHot", arg::one_hot),
    ("Or", elementwise::logic),
    ("PRelu", elementwise::prelu),
    ("Pad", pad::pad),
    ("Pow", elementwise::pow),
    ("RNN", recurrent::rnn),
    ("Reciprocal", elementwise::unary),
    ("ReduceL1", reduce::reduce),
    ("ReduceL2", reduce::reduce),
    ("ReduceLogSum", reduce::reduce),
    ("ReduceLogSumExp", reduce::reduce),
    ("ReduceMax", reduce::reduce),
    ("ReduceMean", reduce::reduce),
    ("ReduceMin", reduce::reduce),
    ("ReduceProd", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("ReduceSumSquare", reduce::reduce),
    ("Relu", elementwise::unary),
    ("Reshape", reshape::reshape),
    ("Resize", resize::resize),
    ("Round", elementwise::unary),
    ("Selu", elementwise::unary),
    ("Shape", constant::shape),
    ("Sigmoid", elementwise::unary),
    ("Sign", elementwise::signed),
    ("Sin", elementwise::unary),
    ("Size", constant::size),
    ("Slice", select::slice),
    ("Softmax", softmax::softmax),
    ("Softplus", elementwise::unary),
    ("Softsign", elementwise::unary),
    ("SpaceToDepth", depth::to_depth),
    ("Split", select::split),
    ("Sqrt", elementwise::unary),
    ("Squeeze", reshape::squeeze),
    ("Sub", elementwise::binary),
    ("Sum", elementwise::variadic),
    ("Tanh", elementwise::unary),
    ("ThresholdedRelu", elementwise::unary),
    ("Tile", tile::tile),
    ("Transpose", transpose::transpose),
    ("Trilu", triangle::triangle),
    ("Unsqueeze", reshape::unsqueeze),
    ("Where", elementwise::choose),
    ("Xor", elementwise::logic),
];

/// The rule of `op`.
pub(super) fn find(op: &str) -> Option<Rule> {
    RULES.iter().find(|(name, _)| *name == op).map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The rules are sorted and name each operator once.
    #[test]
    fn rules_are_sorted_and_unique() {
        for pair in RULES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
        }
    }
}
