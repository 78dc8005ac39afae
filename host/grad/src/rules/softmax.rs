//! `Softmax` along one axis: `dX = Y · (dY − Σ dY · Y)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::softmax_grad;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Softmax", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let axis = p.int("axis", -1);
    let axis = if axis < 0 { axis + y.rank() as i64 } else { axis } as usize + p.shift();
    let gx = softmax_grad(p.em, &gy, &y, axis);
    p.gx(0, gx);
    Ok(())
}
