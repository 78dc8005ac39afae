//! `ThresholdedRelu`: `Y = X` where `X > α`, else 0 ⇒ `dX = dY` or 0.

use super::Rule;
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_float;

pub const RULE: Rule = Rule { op: "ThresholdedRelu", pull, cases };

/// `pass` where `x` is above the threshold.
pub fn gate(em: &mut Emitter, x: &Var, pass: &Var, alpha: f64) -> Var {
    let (alpha, zero) = (em.scalar(x.dtype, alpha), em.scalar(x.dtype, 0.0));
    let open = em.compare("Greater", x, &alpha);
    em.choose(&open, pass, &zero)
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = gate(p.em, &x, &gy, p.float("alpha", 1.0));
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("ThresholdedRelu", -2.0, 2.0);
    let alpha = vec![make_attr_float("alpha", -0.25)];
    cases.extend(GraphBuilder::unary_cases_with(13, "ThresholdedRelu", alpha, -2.0, 2.0));
    cases
}
