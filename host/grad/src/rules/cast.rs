//! `Cast` from one float type to another ⇒ `dX = dY`, cast back. No gradient passes to or from integers and Booleans.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Cast", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = p.em.cast(&gy, x.dtype);
    p.gx(0, gx);
    Ok(())
}
