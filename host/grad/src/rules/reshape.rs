//! `Reshape`: the same elements in row-major order ⇒ `dX` = `dY` in `X`'s shape, factored if `dY` is.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::Grad;

pub const RULE: GradRule = GradRule { op: "Reshape", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (shape, batch) = p.layout(0);
    match p.gy_any() {
        Grad::Factored(factors) => {
            let factors = factors.reshape(&shape[1..]);
            p.gx_factored(0, factors);
        }
        Grad::Dense(gy) => {
            let gx = p.em.reshape(&gy, &shape, Some(batch));
            p.gx(0, gx);
        }
    }
    Ok(())
}
