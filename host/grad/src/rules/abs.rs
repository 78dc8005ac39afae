//! `Abs`: `Y = |X|` ⇒ `dX = dY · sign(X)` (0 at 0, as in PyTorch).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Abs", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let sign = p.em.sign(&x);
    let gx = p.em.mul(&gy, &sign);
    p.gx(0, gx);
    Ok(())
}
