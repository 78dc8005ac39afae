//! `Celu`: `Y = X` where `X > 0`, else `α · (exp(X / α) − 1)` ⇒ `dX = dY` or `dY · exp(X / α)`.

use super::elu::Exponential;
use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Celu", pull };

/// `Celu` with `α`.
pub fn celu(alpha: f64) -> Exponential {
    Exponential { alpha, beta: 1.0 / alpha, gamma: 1.0 }
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    celu(p.float("alpha", 1.0)).backward(p);
    Ok(())
}
