//! `Neg`: `Y = −X` ⇒ `dX = −dY`, factored if `dY` is.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::Grad;

pub const RULE: GradRule = GradRule { op: "Neg", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
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
