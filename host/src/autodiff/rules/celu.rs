//! `Celu`: `Y = X` where `X > 0`, else `α · (exp(X / α) − 1)` ⇒ `dX = dY` or `dY · exp(X / α)`.

use super::Rule;
use super::elu::Exponential;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_float;

pub const RULE: Rule = Rule { op: "Celu", pull, cases };

/// `Celu` with `α`.
pub fn celu(alpha: f64) -> Exponential {
    Exponential { alpha, beta: 1.0 / alpha, gamma: 1.0 }
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    celu(p.float("alpha", 1.0)).backward(p);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Celu", -2.0, 2.0);
    cases.push(GraphBuilder::far_out(17, "Celu", vec![make_attr_float("alpha", 0.5)]));
    cases
}
