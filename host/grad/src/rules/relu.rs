//! `Relu`: `Y = max(X, 0)` ⇒ `dX = dY` if `Y > 0`, else 0 (as in PyTorch at 0).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Relu", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let zero = p.em.scalar(y.dtype, 0.0);
    let open = p.em.compare("Greater", &y, &zero);
    let gx = p.em.choose(&open, &gy, &zero);
    p.gx(0, gx);
    Ok(())
}
