//! `Cos`: `Y = cos(X)` ⇒ `dX = dY · −sin(X)`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Cos", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let slope = p.em.alone("Sin", &x);
    let slope = p.em.unary("Neg", &slope);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}
