//! `Erf`: `Y = erf(X)` ⇒ `dX = dY · 2/√π · exp(−X²)`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Erf", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let square = p.em.mul(&x, &x);
    let minus = p.em.unary("Neg", &square);
    let bell = p.em.unary("Exp", &minus);
    let slope = p.em.scale(&bell, std::f64::consts::FRAC_2_SQRT_PI);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}
