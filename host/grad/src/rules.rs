//! Differentiation rules: a table of structs, with one operator per file.
//!
//! The header of a rule contains its formula. A rule never sums over the samples and never reduces over broadcast axes
//! (`broadcast` does that for all rules). `tests/rules/cases` has test cases for each rule. They are compared with
//! finite differences on each backend, and tested for independence of the samples.

mod abs;
mod acos;
mod acosh;
mod add;
mod asin;
mod asinh;
mod atan;
mod atanh;
mod average_pool;
mod cast;
pub mod celu;
mod clip;
mod concat;
mod conv;
mod conv_transpose;
mod cos;
mod cosh;
pub(super) mod cum_sum;
mod div;
pub mod elu;
mod erf;
mod exp;
mod expand;
mod gather;
mod gather_elements;
pub mod gelu;
mod gemm;
mod global_average_pool;
mod global_max_pool;
mod group_normalization;
pub mod hard_sigmoid;
pub mod hard_swish;
mod identity;
mod instance_normalization;
mod layer_normalization;
mod leaky_relu;
mod log;
mod log_softmax;
pub mod lp_normalization;
mod mat_mul;
mod max;
mod max_pool;
mod mean;
pub mod mean_variance_normalization;
mod min;
pub mod mish;
mod mul;
mod neg;
pub mod p_relu;
pub mod pad;
pub mod pow;
mod reciprocal;
pub mod reduce_l1;
pub mod reduce_l2;
pub mod reduce_log_sum;
pub mod reduce_log_sum_exp;
mod reduce_max;
mod reduce_mean;
mod reduce_min;
pub mod reduce_prod;
mod reduce_sum;
pub mod reduce_sum_square;
mod relu;
mod reshape;
pub mod resize;
mod rule;
pub mod selu;
mod sigmoid;
mod sin;
mod sinh;
mod slice;
mod softmax;
pub mod softplus;
pub mod softsign;
mod sqrt;
mod sub;
mod sum;
pub mod tan;
mod tanh;
pub mod thresholded_relu;
mod top_k;
mod transpose;
pub(super) mod trilu;
mod where_;
mod windows;

use rule::GradRule;

/// All rules, by operator.
pub const RULES: &[GradRule] = &[
    abs::RULE,
    acos::RULE,
    acosh::RULE,
    add::RULE,
    asin::RULE,
    asinh::RULE,
    atan::RULE,
    atanh::RULE,
    average_pool::RULE,
    cast::RULE,
    celu::RULE,
    clip::RULE,
    concat::RULE,
    conv::RULE,
    conv_transpose::RULE,
    cos::RULE,
    cosh::RULE,
    cum_sum::RULE,
    div::RULE,
    elu::RULE,
    erf::RULE,
    exp::RULE,
    expand::RULE,
    gather::RULE,
    gather_elements::RULE,
    gelu::RULE,
    gemm::RULE,
    global_average_pool::RULE,
    global_max_pool::RULE,
    group_normalization::RULE,
    hard_sigmoid::RULE,
    hard_swish::RULE,
    identity::RULE,
    instance_normalization::RULE,
    layer_normalization::RULE,
    leaky_relu::RULE,
    log::RULE,
    log_softmax::RULE,
    lp_normalization::RULE,
    mat_mul::RULE,
    max::RULE,
    max_pool::RULE,
    mean::RULE,
    mean_variance_normalization::RULE,
    min::RULE,
    mish::RULE,
    mul::RULE,
    neg::RULE,
    p_relu::RULE,
    pad::RULE,
    pow::RULE,
    reciprocal::RULE,
    reduce_l1::RULE,
    reduce_l2::RULE,
    reduce_log_sum::RULE,
    reduce_log_sum_exp::RULE,
    reduce_max::RULE,
    reduce_mean::RULE,
    reduce_min::RULE,
    reduce_prod::RULE,
    reduce_sum::RULE,
    reduce_sum_square::RULE,
    relu::RULE,
    reshape::RULE,
    resize::RULE,
    selu::RULE,
    sigmoid::RULE,
    sin::RULE,
    sinh::RULE,
    slice::RULE,
    softmax::RULE,
    softplus::RULE,
    softsign::RULE,
    sqrt::RULE,
    sub::RULE,
    sum::RULE,
    tan::RULE,
    tanh::RULE,
    thresholded_relu::RULE,
    top_k::RULE,
    transpose::RULE,
    trilu::RULE,
    where_::RULE,
];

/// Returns the operators of a [`Graph`](damper_onnx::graph::Graph) that have a rule, in alphabetical order.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.op)
}

/// Returns true if gradients pass through operator `op` of a model. [`Graph`](damper_onnx::graph::Graph) may rewrite it
/// to another operator.
pub fn is_differentiated(op: &str) -> bool {
    let canonical = match op {
        "CastLike" => "Cast",
        "DepthToSpace" | "SpaceToDepth" => "Transpose",
        "Dropout" => "Identity",
        "Einsum" => "MatMul",
        "Flatten" | "Squeeze" | "Unsqueeze" => "Reshape",
        "GRU" | "LSTM" | "RNN" => "MatMul",
        "GatherND" => "Gather",
        "LRN" => "AveragePool",
        "Attention" | "RMSNormalization" | "RotaryEmbedding" | "Swish" => "Mul",
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => "GatherElements",
        "ScatterElements" | "ScatterND" | "Shrink" => "Where",
        "Split" => "Slice",
        "Tile" => "Expand",
        _ => op,
    };
    RULES.iter().any(|rule| rule.op == canonical)
}

/// Operators with a zero derivative or without float outputs. No gradient passes through them, and none is needed.
const FLAT: &[&str] = &[
    "And",
    "ArgMax",
    "ArgMin",
    "Ceil",
    "Equal",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Round",
    "Sign",
    "Xor",
];

/// Returns true if the derivative of operator `op` is not 0 everywhere.
pub fn has_nonzero_derivative(op: &str) -> bool {
    !FLAT.contains(&op)
}
