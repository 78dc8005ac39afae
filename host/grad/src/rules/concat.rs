//! `Concat`: `Y` = inputs concatenated along an axis ⇒ each `dX` is its part of `dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Concat", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let axis = p.int("axis", 0) as usize;
    let gy = p.gy();
    let mut start = 0;
    for i in 0..p.arity() {
        let count = p.x(i).shape[axis];
        if p.wants(i) {
            let gx = p.em.slice(&gy, &[(axis + p.shift(), start, 1, count)]);
            p.gx(i, gx);
        }
        start += count;
    }
    Ok(())
}
