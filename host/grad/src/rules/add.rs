//! `Add`: `Y = A + B` ⇒ `dA = dY`, `dB = dY`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Add", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    for i in 0..2 {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}
