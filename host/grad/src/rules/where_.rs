//! `Where`: `Y = A` if the condition holds, else `B` ⇒ `dA = dY` if it holds, else 0, and the reverse for `dB`. The
//! condition masks both, so an infinity or NaN of the other side does not spread.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Where", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (condition, gy) = (p.x(0), p.gy());
    let zero = p.em.scalar(gy.dtype, 0.0);
    if p.wants(1) {
        let ga = p.em.choose(&condition, &gy, &zero);
        p.gx(1, ga);
    }
    if p.wants(2) {
        let gb = p.em.choose(&condition, &zero, &gy);
        p.gx(2, gb);
    }
    Ok(())
}
