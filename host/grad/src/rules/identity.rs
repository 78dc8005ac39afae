//! `Identity`: `Y = X` ⇒ `dX = dY`.

use super::Rule;
use crate::factor::Grad;
use crate::refusal::Refusal;
use crate::sweep::Pull;

pub const RULE: Rule = Rule { op: "Identity", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    match p.gy_any() {
        Grad::Factored(factors) => p.gx_factored(0, factors),
        Grad::Dense(gy) => p.gx(0, gy),
    }
    Ok(())
}
