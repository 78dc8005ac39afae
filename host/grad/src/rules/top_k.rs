//! `TopK` along an axis: `Y_j = X_{i_j}` with the indices `i` in the second output ⇒ `dX_i` = the `dY_j` with
//! `i_j = i`, else 0.

use super::gather_elements;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "TopK", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let axis = p.int("axis", -1).rem_euclid(p.x(0).rank() as i64) as usize;
    let places = p.output(1);
    gather_elements::backward_at(p, &places, axis);
    Ok(())
}
