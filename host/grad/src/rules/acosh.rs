//! `Acosh`: `Y = arcosh(X)` ⇒ `dX = dY / √(X² − 1)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Acosh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let one = p.em.scalar(x.dtype, 1.0);
    let (less, more) = (p.em.sub(&x, &one), p.em.add(&x, &one));
    let product = p.em.mul(&less, &more);
    let root = p.em.unary("Sqrt", &product);
    let gx = p.em.div(&gy, &root);
    p.gx(0, gx);
    Ok(())
}
