//! `HardSwish`: `Y = X · min(max(X / 6 + 1/2, 0), 1)` ⇒ `dX = 0` if `X ≤ −3`, `dY · (X / 3 + 1/2)` if `X < 3`, else
//! `dY` (as in PyTorch at ±3).

use super::hard_sigmoid;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "HardSwish", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let gate = hard_sigmoid::forward(em, x, 1.0 / 6.0, 0.5);
    em.mul(x, &gate)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let [low, high, zero, half, one] = [-3.0, 3.0, 0.0, 0.5, 1.0].map(|v| p.em.scalar(x.dtype, v));
    let third = p.em.scale(&x, 1.0 / 3.0);
    let line = p.em.add(&third, &half);
    let below = p.em.compare("Less", &x, &high);
    let above = p.em.compare("Greater", &x, &low);
    let derivative = p.em.choose(&below, &line, &one);
    let derivative = p.em.choose(&above, &derivative, &zero);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
