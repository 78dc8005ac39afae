//! `Concat`: `Y` = inputs one after the other along an axis ⇒ each `dX` is its part of `dY`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Concat", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
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
