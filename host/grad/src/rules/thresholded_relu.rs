//! `ThresholdedRelu`: `Y = X` if `X > α`, else 0 ⇒ `dX = dY` or 0.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ThresholdedRelu", backward };

/// `pass` if `x` is above the threshold, else 0.
pub fn gate(em: &mut Emitter, x: &Var, pass: &Var, alpha: f64) -> Var {
    let (alpha, zero) = (em.scalar(x.dtype, alpha), em.scalar(x.dtype, 0.0));
    let open = em.compare("Greater", x, &alpha);
    em.choose(&open, pass, &zero)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = gate(p.em, &x, &gy, p.float("alpha", 1.0));
    p.gx(0, gx);
    Ok(())
}
