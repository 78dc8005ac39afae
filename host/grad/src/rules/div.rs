//! `Div`: `Y = A / B` ⇒ `dA = dY / B`, `dB = −dY · Y / B`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Div", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (b, y, gy) = (p.x(1), p.y(), p.gy());
    let ratio = p.em.div(&gy, &b);
    if p.wants(1) {
        let product = p.em.mul(&ratio, &y);
        let gx = p.em.unary("Neg", &product);
        p.gx(1, gx);
    }
    if p.wants(0) {
        p.gx(0, ratio);
    }
    Ok(())
}
