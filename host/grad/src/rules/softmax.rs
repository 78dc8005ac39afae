//! `Softmax` along one axis: `dX = Y · (dY − Σ dY · Y)`.
//!
//! A row of minus infinities, such as a query whose keys are all masked, has `Y` = NaN. If a guard replaced it
//! (`Where(IsNaN(Y), 0, Y)`, or by the mask), `dY` is 0 and so is `dX`, as in PyTorch's attention.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::softmax_grad;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Softmax", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    let axis = p.int("axis", -1);
    let axis = if axis < 0 { axis + p.y().rank() as i64 } else { axis } as usize + p.shift();
    let y = p.chosen_y(&gy);
    let gx = softmax_grad(p.em, &gy, &y, axis);
    p.gx(0, gx);
    Ok(())
}
