//! `ReduceMax`: `Y` = largest of `X` over axes ⇒ `dX = dY / k` at each of the `k` largest elements, else 0 (as PyTorch's
//! `amax` shares among equal elements).

use super::Rule;
use super::reduce_sum::{attribute_form, input_form_cases, kept_output, reduction_cases, repeatable};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_ints;

pub const RULE: Rule = Rule { op: "ReduceMax", pull, cases };

/// The gradient of the extreme elements.
pub fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (gy, _) = repeatable(p)?;
    let (x, y) = (p.x(0), kept_output(p)?);
    let axes = p.reduced_axes().unwrap_or_default();
    let (zero, one) = (p.em.scalar(x.dtype, 0.0), p.em.scalar(x.dtype, 1.0));
    let is_chosen = p.em.compare("Equal", &x, &y);
    let counted = p.em.choose(&is_chosen, &one, &zero);
    let count = p.em.reduce_sum(&counted, &axes, true);
    let share = p.em.div(&gy, &count);
    let gx = p.em.choose(&is_chosen, &share, &zero);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    extreme_cases("ReduceMax")
}

/// Cases shared with `ReduceMin`.
pub fn extreme_cases(op: &str) -> Vec<Case> {
    let mut cases = reduction_cases(op, attribute_form);
    let mut tied = GraphBuilder::new(17);
    let x = tied.activation(&[1, 3]);
    let repeated = tied.node("Expand", &[x], vec![], &[1, 4, 3]);
    let y = tied.node(op, &[repeated], vec![make_attr_ints("axes", &[1])], &[1, 1, 3]);
    cases.push(tied.case("of equal elements", y));
    cases.extend(input_form_cases(op));
    cases
}
