//! `Expand`: `Y = X` repeated ⇒ `dX` = `dY` summed over the repetitions (which is done for every rule in one place).

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Expand", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    p.gx(0, gy);
    Ok(())
}
