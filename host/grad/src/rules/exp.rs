//! `Exp`: `Y = exp(X)` ⇒ `dX = dY · Y`.

use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: Rule = Rule { op: "Exp", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let gx = p.em.mul(&gy, &y);
    p.gx(0, gx);
    Ok(())
}
