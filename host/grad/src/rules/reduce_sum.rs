//! `ReduceSum`: `Y` = `X` summed over axes ⇒ `dX` = `dY` repeated along them.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::Var;

pub const RULE: GradRule = GradRule { op: "ReduceSum", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    p.gx(0, gy);
    Ok(())
}

/// `dY` with extent 1 along the reduced axes, and the number of elements per sample in each sum.
pub fn repeatable(p: &mut BackwardContext<'_>) -> Result<(Var, usize), DeriveError> {
    let x = p.x(0);
    let axes = p.reduced_axes()?;
    let count = axes.iter().map(|&a| x.shape[a]).product();
    let (mut shape, batch) = p.layout(0);
    for axis in axes {
        shape[axis + p.shift()] = 1;
    }
    let gy = p.gy();
    Ok((p.em.reshape(&gy, &shape, Some(batch)), count))
}

/// `Y` with extent 1 along the reduced axes.
pub fn kept_output(p: &mut BackwardContext<'_>) -> Result<Var, DeriveError> {
    let (x, y) = (p.x(0), p.y());
    let axes = p.reduced_axes()?;
    let mut shape = x.shape;
    for axis in axes {
        shape[axis] = 1;
    }
    Ok(p.em.reshape(&y, &shape, x.batch))
}
