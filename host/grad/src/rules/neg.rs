//! `Neg`: `Y = −X` ⇒ `dX = −dY`, factored where `dY` is.

use super::rule::Rule;
use crate::factor::Grad;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Neg", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    match p.gy_any() {
        Grad::Factored(factors) => {
            let minus_one = p.em.scalar(p.x(0).dtype, -1.0);
            let factors = factors.scale(p.em, &minus_one);
            p.gx_factored(0, factors);
        }
        Grad::Dense(gy) => {
            let gx = p.em.unary("Neg", &gy);
            p.gx(0, gx);
        }
    }
    Ok(())
}
