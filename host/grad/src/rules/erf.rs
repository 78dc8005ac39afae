//! `Erf`: `Y = erf(X)` ⇒ `dX = dY · 2/√π · exp(−X²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Erf", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let square = p.em.mul(&x, &x);
    let minus = p.em.unary("Neg", &square);
    let bell = p.em.unary("Exp", &minus);
    let derivative = p.em.scale(&bell, std::f64::consts::FRAC_2_SQRT_PI);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
