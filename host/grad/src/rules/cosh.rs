//! `Cosh`: `Y = cosh(X)` ⇒ `dX = dY · sinh(X)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Cosh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let sine = p.em.alone("Sinh", &x);
    let gx = p.em.mul(&gy, &sine);
    p.gx(0, gx);
    Ok(())
}
