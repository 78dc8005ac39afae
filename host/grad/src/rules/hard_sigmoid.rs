//! `HardSigmoid`: `Y = min(max(α · X + β, 0), 1)` ⇒ `dX = α · dY` if `0 < Y < 1`, else 0.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "HardSigmoid", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, alpha: f64, beta: f64) -> Var {
    let (zero, one, beta) = (em.scalar(x.dtype, 0.0), em.scalar(x.dtype, 1.0), em.scalar(x.dtype, beta));
    let scaled = em.scale(x, alpha);
    let line = em.add(&scaled, &beta);
    let above = em.binary("Max", &line, &zero);
    em.binary("Min", &above, &one)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let (zero, one) = (p.em.scalar(y.dtype, 0.0), p.em.scalar(y.dtype, 1.0));
    let above = p.em.compare("Greater", &y, &zero);
    let below = p.em.compare("Less", &y, &one);
    let scaled = p.em.scale(&gy, p.float("alpha", 0.2));
    let open = p.em.choose(&above, &scaled, &zero);
    let gx = p.em.choose(&below, &open, &zero);
    p.gx(0, gx);
    Ok(())
}
