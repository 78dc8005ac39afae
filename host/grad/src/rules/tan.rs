//! `Tan`: `Y = tan(X) = sin(X) / cos(X)` ⇒ `dX = dY · (1 + Y²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Tan", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let (sine, cosine) = (em.alone("Sin", x), em.alone("Cos", x));
    em.div(&sine, &cosine)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let one = p.em.scalar(y.dtype, 1.0);
    let square = p.em.mul(&y, &y);
    let derivative = p.em.add(&square, &one);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
