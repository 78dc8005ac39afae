//! `LeakyRelu`: `Y = X` if `X ≥ 0`, else `αX` ⇒ `dX = dY` if `X > 0`, else `α · dY` (as in PyTorch at 0).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "LeakyRelu", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let alpha = p.float("alpha", 0.01);
    let zero = p.em.scalar(x.dtype, 0.0);
    let open = p.em.compare("Greater", &x, &zero);
    let leak = p.em.scale(&gy, alpha);
    let gx = p.em.choose(&open, &gy, &leak);
    p.gx(0, gx);
    Ok(())
}
