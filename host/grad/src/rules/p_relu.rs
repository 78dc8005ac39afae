//! `PRelu`: `Y = X` if `X > 0`, else `s · X` ⇒ `dX = dY` or `dY · s`, `ds = 0` or `dY · X` (the latter at 0, as in
//! PyTorch).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "PRelu", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, derivative: &Var) -> Var {
    let low = em.mul(x, derivative);
    let positive = positive(em, x);
    em.choose(&positive, x, &low)
}

fn positive(em: &mut Emitter, x: &Var) -> Var {
    let zero = em.scalar(x.dtype, 0.0);
    em.compare("Greater", x, &zero)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, derivative, gy) = (p.x(0), p.x(1), p.gy());
    let positive = positive(p.em, &x);
    if p.wants(0) {
        let low = p.em.mul(&gy, &derivative);
        let gx = p.em.choose(&positive, &gy, &low);
        p.gx(0, gx);
    }
    if p.wants(1) {
        let zero = p.em.scalar(x.dtype, 0.0);
        let product = p.em.mul(&gy, &x);
        let gs = p.em.choose(&positive, &zero, &product);
        p.gx(1, gs);
    }
    Ok(())
}
