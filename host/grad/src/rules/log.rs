//! `Log`: `Y = ln(X)` ⇒ `dX = dY / X`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Log", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = p.em.div(&gy, &x);
    p.gx(0, gx);
    Ok(())
}
