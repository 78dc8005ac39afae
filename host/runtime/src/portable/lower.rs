//! From ONNX nodes to kernels: one function for each operator.

mod elementwise;
mod indices;
mod layout;
mod products;
mod reductions;
mod windows;

use super::builder::{Builder, Id, Refusal};
use damper_nn::elementwise::{Binary, Compare, Unary, Whole};
use damper_nn::reduce::Fold;
use damper_onnx::pb::AttributeProto;
use damper_onnx::{attr_float, attr_int, attr_ints, attr_string};
pub(super) use layout::tensor_of;

/// A node, with its inputs as values.
pub(super) struct Node<'a> {
    pub(super) op: &'a str,
    pub(super) attributes: &'a [AttributeProto],
    pub(super) inputs: Vec<Option<Id>>,
    /// Outputs that have a name.
    pub(super) outputs: usize,
}

impl Node<'_> {
    fn input(&self, at: usize) -> Result<Id, Refusal> {
        self.optional(at).ok_or_else(|| format!("its input {at} is missing"))
    }

    fn optional(&self, at: usize) -> Option<Id> {
        self.inputs.get(at).copied().flatten()
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        attr_int(self.attributes, name, default)
    }

    fn ints(&self, name: &str) -> Option<&[i64]> {
        attr_ints(self.attributes, name)
    }

    fn float(&self, name: &str, default: f32) -> f32 {
        attr_float(self.attributes, name, default)
    }

    fn string(&self, name: &str, default: &'static str) -> &str {
        attr_string(self.attributes, name, default)
    }

    /// The constant integers of input `at`, or of attribute `name` as older operator sets have them.
    fn list(&self, builder: &Builder, at: usize, name: &str) -> Result<Option<Vec<i64>>, Refusal> {
        match self.optional(at) {
            Some(id) => {
                let list = builder.ints(id).ok_or_else(|| format!("its {name} are not constant integers"))?;
                Ok(Some(list.to_vec()))
            }
            None => Ok(self.ints(name).map(<[i64]>::to_vec)),
        }
    }
}

/// An axis, counted from the end where it is negative.
fn axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let from_start = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_start)
        .ok()
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("axis {axis} is not one of {rank}"))
}

/// Writes `node` into the program; its output.
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
        _ => Err("there is no portable kernel for this operator".into()),
    }
}
