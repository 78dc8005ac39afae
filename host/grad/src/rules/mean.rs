//! `Mean` of `n` inputs: `dX_i = dY / n`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Mean", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    let share = p.em.scale(&gy, 1.0 / p.arity() as f64);
    for i in 0..p.arity() {
        if p.wants(i) {
            p.gx(i, share.clone());
        }
    }
    Ok(())
}
