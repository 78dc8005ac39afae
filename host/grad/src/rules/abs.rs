//! `Abs`: `Y = |X|` ⇒ `dX = dY · sign(X)` (0 at 0, as PyTorch has it).

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Abs", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let sign = p.em.unary("Sign", &x);
    let gx = p.em.mul(&gy, &sign);
    p.gx(0, gx);
    Ok(())
}
