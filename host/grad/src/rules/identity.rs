//! `Identity`: `Y = X` ⇒ `dX = dY`.

use super::rule::Rule;
use crate::factor::Grad;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Identity", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    match p.gy_any() {
        Grad::Factored(factors) => p.gx_factored(0, factors),
        Grad::Dense(gy) => p.gx(0, gy),
    }
    Ok(())
}
