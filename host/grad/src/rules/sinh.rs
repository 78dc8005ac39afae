//! `Sinh`: `Y = sinh(X)` ⇒ `dX = dY · cosh(X)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sinh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let cosine = p.em.alone("Cosh", &x);
    let gx = p.em.mul(&gy, &cosine);
    p.gx(0, gx);
    Ok(())
}
