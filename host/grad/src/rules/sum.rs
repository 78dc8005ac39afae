//! `Sum` of any number of inputs: `dX_i = dY`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Sum", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    for i in 0..p.arity() {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}
