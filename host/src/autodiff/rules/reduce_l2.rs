//! `ReduceL2`: `Y = √ΣX²` over axes ⇒ `dX = dY · X / Y`, and 0 where `Y = 0` (as PyTorch has it).
//!
//! Numerics: products and the [`Emitter`]'s sums, for runtimes' own `ReduceL2` is biased low over long axes.

use super::Rule;
use super::reduce_sum::{attribute_form, input_form_cases, kept_output, reduction_cases, repeatable};
use super::reduce_sum_square;
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_ints;

pub const RULE: Rule = Rule { op: "ReduceL2", pull, cases };

/// `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize], keep: bool) -> Var {
    let sum = reduce_sum_square::forward(em, x, axes, keep);
    em.unary("Sqrt", &sum)
}

/// `a / norm`, and 0 where the norm is 0.
pub fn over_norm(em: &mut Emitter, a: &Var, norm: &Var) -> Var {
    let zero = em.scalar(norm.dtype, 0.0);
    let is_zero = em.compare("Equal", norm, &zero);
    let ratio = em.div(a, norm);
    em.choose(&is_zero, &zero, &ratio)
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (gy, _) = repeatable(p)?;
    let (x, y) = (p.x(0), kept_output(p)?);
    let ratio = over_norm(p.em, &gy, &y);
    let gx = p.em.mul(&x, &ratio);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = reduction_cases("ReduceL2", attribute_form);
    cases.extend(input_form_cases("ReduceL2"));
    let zeroed = |b: &mut GraphBuilder| {
        let x = b.activation(&[2, 3]);
        let rows = b.floats(&[2, 1], &[0.0, 1.0]);
        b.node("Mul", &[x, rows], vec![], &[1, 2, 3])
    };
    let mut zero = GraphBuilder::new(17);
    let x = zeroed(&mut zero);
    let y = zero.node("ReduceL2", &[x], vec![make_attr_ints("axes", &[2])], &[1, 2, 1]);
    cases.push(zero.case("of a row of zeros", y));
    // As torch.nn.functional.normalize is exported.
    let mut unit = GraphBuilder::new(17);
    let x = zeroed(&mut unit);
    let norm = unit.node("ReduceL2", &[x], vec![make_attr_ints("axes", &[-1])], &[1, 2, 1]);
    let least = unit.floats(&[], &[1e-12]);
    let norm = unit.node("Clip", &[norm, least], vec![], &[1, 2, 1]);
    let wide = unit.node("Expand", &[norm], vec![], &[1, 2, 3]);
    let z = unit.node("Div", &[x, wide], vec![], &[1, 2, 3]);
    cases.push(unit.case("a row of zeros, normalised", z));
    cases
}
