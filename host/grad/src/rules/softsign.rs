//! `Softsign`: `Y = X / (1 + |X|)` ⇒ `dX = dY / (1 + |X|)²`.

use super::rule::Rule;
use crate::emit::{Emitter, Var};
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Softsign", pull };

/// `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let divisor = divisor(em, x);
    em.div(x, &divisor)
}

fn divisor(em: &mut Emitter, x: &Var) -> Var {
    let one = em.scalar(x.dtype, 1.0);
    let magnitude = em.unary("Abs", x);
    em.add(&magnitude, &one)
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let divisor = divisor(p.em, &x);
    let once = p.em.div(&gy, &divisor);
    let gx = p.em.div(&once, &divisor);
    p.gx(0, gx);
    Ok(())
}
