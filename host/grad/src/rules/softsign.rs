//! `Softsign`: `Y = X / (1 + |X|)` ⇒ `dX = dY / (1 + |X|)²`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Softsign", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let divisor = divisor(em, x);
    em.div(x, &divisor)
}

fn divisor(em: &mut Emitter, x: &Var) -> Var {
    let one = em.scalar(x.dtype, 1.0);
    let magnitude = em.unary("Abs", x);
    em.add(&magnitude, &one)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let divisor = divisor(p.em, &x);
    let once = p.em.div(&gy, &divisor);
    let gx = p.em.div(&once, &divisor);
    p.gx(0, gx);
    Ok(())
}
