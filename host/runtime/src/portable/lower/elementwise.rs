//! Elementwise functions, arithmetic, comparisons and selections.

use super::super::builder::{Builder, Id, Refusal, TOO_MANY_AXES, broadcast};
use super::super::kernel::{Kernel, Logic};
use super::super::node::Node;
use super::super::value::Kind;
use damper_nn::Walk;
use damper_nn::elementwise::{Binary, Compare, Unary, Whole};

pub(super) fn unary(b: &mut Builder, node: &Node<'_>, op: Unary) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    match (b.kind(x), op) {
        (Kind::F32, _) => b.step(Kernel::Unary(op), &[x], Kind::F32, b.shape(x).to_vec()),
        (Kind::I64, Unary::Neg) => {
            let zero = b.constant(vec![], super::super::value::Data::I64(vec![0]));
            pair(b, zero, x, Kind::I64, |walk| Kernel::Whole(Whole::Sub, walk))
        }
        _ => Err("it is of floats only".into()),
    }
}

pub(super) fn clip(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let bound = |at: usize, name: &str, default: f32| match node.optional(at) {
        Some(id) => b.float(id).ok_or_else(|| format!("its {name} is not a constant float")),
        None => Ok(node.float(name, default)),
    };
    let (low, high) = (bound(1, "min", f32::NEG_INFINITY)?, bound(2, "max", f32::INFINITY)?);
    unary(b, node, Unary::Clip { low, high })
}

/// Left fold of `op` over two or more operands.
pub(super) fn arithmetic(b: &mut Builder, node: &Node<'_>, op: Binary, whole: Option<Whole>) -> Result<Id, Refusal> {
    let mut result = node.input(0)?;
    for at in 1..node.inputs.len() {
        let next = node.input(at)?;
        result = match (b.kind(result), b.kind(next), whole) {
            (Kind::F32, Kind::F32, _) => pair(b, result, next, Kind::F32, |walk| Kernel::Binary(op, walk))?,
            (Kind::I64, Kind::I64, Some(op)) => pair(b, result, next, Kind::I64, |walk| Kernel::Whole(op, walk))?,
            _ => return Err("its operands are not all floats or all integers".into()),
        };
    }
    Ok(result)
}

pub(super) fn compare(b: &mut Builder, node: &Node<'_>, op: Compare) -> Result<Id, Refusal> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    if b.kind(x) != b.kind(y) {
        return Err("its operands are of two types".into());
    }
    pair(b, x, y, Kind::Bool, |walk| Kernel::Compare(op, walk))
}

pub(super) fn logic(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let op = match node.op {
        "And" => Logic::And,
        "Or" => Logic::Or,
        _ => Logic::Xor,
    };
    if [x, y].iter().any(|id| b.kind(*id) != Kind::Bool) {
        return Err("its operands are not truth values".into());
    }
    pair(b, x, y, Kind::Bool, |walk| Kernel::Logic(op, walk))
}

pub(super) fn test(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let kernel = match (node.op, b.kind(x)) {
        ("Not", Kind::Bool) => Kernel::Not,
        ("IsNaN", Kind::F32) => Kernel::IsNan,
        _ => return Err("its operand is of another type".into()),
    };
    b.step(kernel, &[x], Kind::Bool, b.shape(x).to_vec())
}

pub(super) fn choice(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (condition, x, y) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if b.kind(condition) != Kind::Bool || b.kind(x) != b.kind(y) {
        return Err("its operands are of two types".into());
    }
    if let Some(gate) = b.positive(condition)
        && b.float(y).is_some_and(|y| y.to_bits() == 0)
        && b.shape(y).len() <= b.shape(x).len()
        && (b.shape(gate), b.shape(x)) == (b.shape(x), b.shape(condition))
    {
        return pair(b, gate, x, Kind::F32, |walk| Kernel::Binary(Binary::Gate, walk));
    }
    let shapes = [b.shape(condition), b.shape(x), b.shape(y)];
    let shape = broadcast(&shapes)?;
    let walk = Walk::broadcast(&shape, shapes).ok_or(TOO_MANY_AXES)?;
    b.step(Kernel::Select(walk), &[condition, x, y], b.kind(x), shape)
}

pub(super) fn cast(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    use damper_onnx::DType;
    let x = node.input(0)?;
    let to = match DType::from_onnx(node.int("to", 0) as i32) {
        Ok(DType::F32) => Kind::F32,
        Ok(DType::I64 | DType::I32) => Kind::I64,
        Ok(DType::Bool) => Kind::Bool,
        Ok(DType::F64) => return Err("there are no portable kernels of float64".into()),
        Err(name) => return Err(format!("there are no portable kernels of {name}")),
    };
    if to == b.kind(x) {
        return Ok(x);
    }
    b.step(Kernel::Cast, &[x], to, b.shape(x).to_vec())
}

/// Adds a kernel of two operands, which are broadcast.
pub(super) fn pair(
    b: &mut Builder,
    x: Id,
    y: Id,
    kind: Kind,
    kernel: impl FnOnce(Walk<2>) -> Kernel,
) -> Result<Id, Refusal> {
    let shapes = [b.shape(x), b.shape(y)];
    let shape = broadcast(&shapes)?;
    let walk = Walk::broadcast(&shape, shapes).ok_or(TOO_MANY_AXES)?;
    b.step(kernel(walk), &[x, y], kind, shape)
}
