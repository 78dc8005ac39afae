//! `Selu`: `Y = γ · X` where `X > 0`, else `γ · α · (exp(X) − 1)` ⇒ `dX = γ · dY` or `dY · γ · α · exp(X)`.

use super::Rule;
use super::elu::Exponential;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_float;

pub const RULE: Rule = Rule { op: "Selu", pull, cases };

/// The operator's default of `α`.
pub const ALPHA: f32 = 1.673_263_2;
/// The operator's default of `γ`.
pub const GAMMA: f32 = 1.050_701;

/// `Selu` with `α` and `γ`.
pub fn selu(alpha: f64, gamma: f64) -> Exponential {
    Exponential { alpha, beta: 1.0, gamma }
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    selu(p.float("alpha", ALPHA), p.float("gamma", GAMMA)).backward(p);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Selu", -2.0, 2.0);
    let attributes = vec![make_attr_float("alpha", 1.5), make_attr_float("gamma", 0.75)];
    cases.push(GraphBuilder::far_out(17, "Selu", attributes));
    cases
}
