//! `ReduceSum`: `Y` = `X` summed over axes ⇒ `dX` = `dY` repeated along them.

use super::Rule;
use crate::autodiff::emit::Var;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::ValueId;
use crate::onnx::make_attr_int;
use crate::onnx::pb::AttributeProto;

pub const RULE: Rule = Rule { op: "ReduceSum", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (gy, _) = repeatable(p)?;
    p.gx(0, gy);
    Ok(())
}

/// `dY` with extent 1 along the reduced axes, and how many elements of one sample were reduced to one.
pub fn repeatable(p: &mut Pull<'_>) -> Result<(Var, usize), Refusal> {
    let x = p.x(0);
    let Some(axes) = p.reduced_axes() else {
        return Err(p.refuse("its axes are not a constant", "export it with constant axes"));
    };
    let count = axes.iter().map(|&a| x.shape[a]).product();
    let (mut shape, batch) = p.layout(0);
    for axis in axes {
        shape[axis + p.shift()] = 1;
    }
    let gy = p.gy();
    Ok((p.em.reshape(&gy, &shape, Some(batch)), count))
}

fn cases() -> Vec<Case> {
    reduction_cases("ReduceSum", |b, axes, keep| (vec![b.ints(axes)], vec![make_attr_int("keepdims", keep)]))
}

type Form = (Vec<ValueId>, Vec<AttributeProto>);

/// Cases shared with the other reductions: `form` gives the axes as further inputs or as attributes.
pub fn reduction_cases(op: &str, form: fn(&mut GraphBuilder, &[i64], i64) -> Form) -> Vec<Case> {
    let one = |name, axes: &[i64], keep, out: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(&[2, 3, 4]);
        let (inputs, attributes) = form(&mut b, axes, keep);
        let y = b.node(op, &[&[x], &inputs[..]].concat(), attributes, out);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[3]), parameter.param(&[2, 3]));
    let (inputs, attributes) = form(&mut parameter, &[0], 0);
    let row = parameter.node(op, &[&[w], &inputs[..]].concat(), attributes, &[3]);
    let y = parameter.node("Mul", &[x, row], vec![], &[1, 3]);
    vec![
        one("keeps its axis", &[2], 1, &[1, 2, 1, 4]),
        one("drops two axes", &[-1, 1], 0, &[1, 3]),
        parameter.case("of a parameter", y),
    ]
}
