//! Lowers ONNX nodes to kernels, with one function for each operator.

mod elementwise;
mod indices;
mod layout;
mod products;
mod reductions;
mod windows;

use super::builder::{Builder, Id, Refusal};
use super::node::Node;
use damper_nn::elementwise::{Binary, Compare, Unary, Whole};
use damper_nn::reduce::Fold;
pub(super) use layout::tensor_of;
pub(super) use windows::has_max_pool_grad;

/// Adds `node` to the program and returns its output.
pub(super) fn lower(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    if node.outputs > 1 {
        return Err("more than one of its outputs is used".into());
    }
    match node.op {
        "Abs" => elementwise::unary(b, node, Unary::Abs),
        "Ceil" => elementwise::unary(b, node, Unary::Ceil),
        "Clip" => elementwise::clip(b, node),
        "Cos" => elementwise::unary(b, node, Unary::Cos),
        "Erf" => elementwise::unary(b, node, Unary::Erf),
        "Exp" => elementwise::unary(b, node, Unary::Exp),
        "Floor" => elementwise::unary(b, node, Unary::Floor),
        "LeakyRelu" => elementwise::unary(b, node, Unary::LeakyRelu { slope: node.float("alpha", 0.01) }),
        "Log" => elementwise::unary(b, node, Unary::Log),
        "Neg" => elementwise::unary(b, node, Unary::Neg),
        "Reciprocal" => elementwise::unary(b, node, Unary::Reciprocal),
        "Relu" => elementwise::unary(b, node, Unary::Relu),
        "Round" => elementwise::unary(b, node, Unary::Round),
        "Sigmoid" => elementwise::unary(b, node, Unary::Sigmoid),
        "Sign" => elementwise::unary(b, node, Unary::Sign),
        "Sin" => elementwise::unary(b, node, Unary::Sin),
        "Sqrt" => elementwise::unary(b, node, Unary::Sqrt),
        "Tanh" => elementwise::unary(b, node, Unary::Tanh),
        "Add" => elementwise::arithmetic(b, node, Binary::Add, Some(Whole::Add)),
        "Div" => elementwise::arithmetic(b, node, Binary::Div, Some(Whole::Div)),
        "Max" => elementwise::arithmetic(b, node, Binary::Max, Some(Whole::Max)),
        "Min" => elementwise::arithmetic(b, node, Binary::Min, Some(Whole::Min)),
        "Mul" => elementwise::arithmetic(b, node, Binary::Mul, Some(Whole::Mul)),
        "Pow" => elementwise::arithmetic(b, node, Binary::Pow, None),
        "Sub" => elementwise::arithmetic(b, node, Binary::Sub, Some(Whole::Sub)),
        "Sum" => elementwise::arithmetic(b, node, Binary::Add, None),
        "Equal" => elementwise::compare(b, node, Compare::Equal),
        "Greater" => elementwise::compare(b, node, Compare::Greater),
        "GreaterOrEqual" => elementwise::compare(b, node, Compare::GreaterOrEqual),
        "Less" => elementwise::compare(b, node, Compare::Less),
        "LessOrEqual" => elementwise::compare(b, node, Compare::LessOrEqual),
        "And" | "Or" | "Xor" => elementwise::logic(b, node),
        "Not" | "IsNaN" => elementwise::test(b, node),
        "Where" => elementwise::choice(b, node),
        "Cast" => elementwise::cast(b, node),
        "Concat" => layout::concat(b, node),
        "Constant" => layout::constant(b, node),
        "ConstantOfShape" => layout::constant_of_shape(b, node),
        "Expand" => layout::expand(b, node),
        "Flatten" => layout::flatten(b, node),
        "Identity" => node.input(0),
        "Pad" => layout::pad(b, node),
        "Reshape" => layout::reshape(b, node),
        "Shape" => layout::shape(b, node),
        "Slice" => layout::slice(b, node),
        "Squeeze" => layout::squeeze(b, node),
        "Transpose" => layout::transpose(b, node),
        "Unsqueeze" => layout::unsqueeze(b, node),
        "Gather" => indices::gather(b, node),
        "GatherElements" => indices::gather_elements(b, node),
        "Resize" => indices::resize(b, node),
        "ScatterElements" => indices::scatter_add(b, node),
        "Gemm" => products::gemm(b, node),
        "GlobalAveragePool" => reductions::global(b, node, Fold::Mean),
        "GlobalMaxPool" => reductions::global(b, node, Fold::Max),
        "MatMul" => products::mat_mul(b, node),
        "ReduceMax" => reductions::reduce(b, node, Fold::Max),
        "ReduceMean" => reductions::reduce(b, node, Fold::Mean),
        "ReduceMin" => reductions::reduce(b, node, Fold::Min),
        "ReduceProd" => reductions::reduce(b, node, Fold::Product),
        "ReduceSum" => reductions::reduce(b, node, Fold::Sum),
        "AveragePool" => windows::average_pool(b, node),
        "Conv" => windows::conv(b, node),
        "ConvTranspose" => windows::conv_transpose(b, node),
        "MaxPool" => windows::max_pool(b, node),
        "MaxPoolGrad" => windows::max_pool_grad(b, node),
        _ => Err("there is no portable kernel for this operator".into()),
    }
}
