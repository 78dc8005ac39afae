//! `Add`: `Y = A + B` ⇒ `dA = dY`, `dB = dY`.

use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: Rule = Rule { op: "Add", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    for i in 0..2 {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}
