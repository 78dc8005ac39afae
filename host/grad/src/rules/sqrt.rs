//! `Sqrt`: `Y = √X` ⇒ `dX = dY / 2Y`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sqrt", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let half = p.em.scale(&gy, 0.5);
    let gx = p.em.div(&half, &y);
    p.gx(0, gx);
    Ok(())
}
