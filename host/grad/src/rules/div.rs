//! `Div`: `Y = A / B` ⇒ `dA = dY / B`, `dB = −dY · Y / B`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Div", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
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
