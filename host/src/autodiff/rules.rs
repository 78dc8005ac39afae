//! The derivative of each operator: one table of plain structs, one operator a file.
//!
//! A rule states its formula in its header, never sums over the samples and never undoes a broadcast (that is done for
//! all of them in `broadcast`). Its cases are part of it: a test runs every case of every rule against finite
//! differences, on each backend, and for independence of the samples.

mod add;
mod average_pool;
mod conv;
mod conv_transpose;
mod div;
mod exp;
mod expand;
mod gemm;
mod global_average_pool;
mod global_max_pool;
mod group_normalization;
mod identity;
mod instance_normalization;
mod leaky_relu;
mod log;
mod log_softmax;
mod mat_mul;
mod max_pool;
mod mul;
mod neg;
pub mod pad;
mod pow;
mod reciprocal;
mod reduce_mean;
mod reduce_sum;
mod relu;
mod reshape;
pub mod resize;
mod sigmoid;
mod softmax;
mod sqrt;
mod sub;
mod tanh;
mod transpose;

use super::refusal::Refusal;
use super::sweep::Pull;
use super::testing::Case;

/// How the gradient of one operator's output becomes gradients of its inputs.
pub struct Rule {
    /// Operator of the standard domain.
    pub op: &'static str,
    /// Emits the gradients of the inputs that are wanted.
    pub pull: fn(&mut Pull<'_>) -> Result<(), Refusal>,
    /// Shapes and attributes the rule must get right.
    pub cases: fn() -> Vec<Case>,
}

/// Every rule, by operator.
pub const RULES: &[Rule] = &[
    add::RULE,
    average_pool::RULE,
    conv::RULE,
    conv_transpose::RULE,
    div::RULE,
    exp::RULE,
    expand::RULE,
    gemm::RULE,
    global_average_pool::RULE,
    global_max_pool::RULE,
    group_normalization::RULE,
    identity::RULE,
    instance_normalization::RULE,
    leaky_relu::RULE,
    log::RULE,
    log_softmax::RULE,
    mat_mul::RULE,
    max_pool::RULE,
    mul::RULE,
    neg::RULE,
    pad::RULE,
    pow::RULE,
    reciprocal::RULE,
    reduce_mean::RULE,
    reduce_sum::RULE,
    relu::RULE,
    reshape::RULE,
    resize::RULE,
    sigmoid::RULE,
    softmax::RULE,
    sqrt::RULE,
    sub::RULE,
    tanh::RULE,
    transpose::RULE,
];

/// Whether gradients pass through operator `op` of a model (that [`Graph`](crate::graph::Graph) may write as another).
pub fn is_differentiated(op: &str) -> bool {
    let canonical = match op {
        "Flatten" | "Squeeze" | "Unsqueeze" => "Reshape",
        "Dropout" => "Identity",
        "Einsum" => "MatMul",
        "LRN" => "AveragePool",
        _ => op,
    };
    RULES.iter().any(|rule| rule.op == canonical)
}
