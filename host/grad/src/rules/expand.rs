//! `Expand`: `Y = X` repeated ⇒ `dX` = `dY` summed over the repetitions (`broadcast` does this for every rule).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Expand", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    p.gx(0, gy);
    Ok(())
}
