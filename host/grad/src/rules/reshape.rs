//! `Reshape`: the same elements in row-major order ⇒ `dX` = `dY` in `X`'s shape, factored where `dY` is.

use super::rule::Rule;
use crate::factor::Grad;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Reshape", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
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
