//! `Asin`: `Y = arcsin(X)` ⇒ `dX = dY / √(1 − X²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Asin", backward };

/// `√(1 − X²)`.
pub fn slope(em: &mut Emitter, x: &Var) -> Var {
    let one = em.scalar(x.dtype, 1.0);
    let (less, more) = (em.sub(&one, x), em.add(&one, x));
    let product = em.mul(&less, &more);
    em.unary("Sqrt", &product)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let slope = slope(p.em, &x);
    let gx = p.em.div(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}
