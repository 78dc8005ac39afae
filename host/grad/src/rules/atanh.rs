//! `Atanh`: `Y = artanh(X)` ⇒ `dX = dY / (1 − X²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Atanh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let one = p.em.scalar(x.dtype, 1.0);
    let (less, more) = (p.em.sub(&one, &x), p.em.add(&one, &x));
    let product = p.em.mul(&less, &more);
    let gx = p.em.div(&gy, &product);
    p.gx(0, gx);
    Ok(())
}
