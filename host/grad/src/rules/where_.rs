//! `Where`: `Y = A` where the condition holds, else `B` ⇒ `dA = dY` where it holds, else 0, and `dB` the other way round. The
//! choice masks both, so that an infinity or NaN of the side not taken does not spread from here.

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
