//! `Exp`: `Y = exp(X)` ⇒ `dX = dY · Y`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Exp", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let gx = p.em.mul(&gy, &y);
    p.gx(0, gx);
    Ok(())
}
