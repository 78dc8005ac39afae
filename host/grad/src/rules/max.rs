//! `Max` of any number of inputs: `dX_i = dY / k` if `X_i = Y`, else 0, with `k` the number of inputs equal to `Y`
//! there. The `maximum` of PyTorch splits the gradient of two equal inputs in the same way.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Max", backward };

/// Adds the gradients of the inputs that are the extremum.
pub fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let (zero, one) = (p.em.scalar(y.dtype, 0.0), p.em.scalar(y.dtype, 1.0));
    let mut chosen = Vec::new();
    let mut count = None;
    for i in 0..p.arity() {
        let x = p.x(i);
        let is_chosen = p.em.compare("Equal", &x, &y);
        let counted = p.em.choose(&is_chosen, &one, &zero);
        count = Some(match count {
            None => counted,
            Some(sum) => p.em.add(&sum, &counted),
        });
        chosen.push(is_chosen);
    }
    let share = p.em.div(&gy, &count.expect("an input"));
    for (i, is_chosen) in chosen.iter().enumerate() {
        if p.wants(i) {
            let gx = p.em.choose(is_chosen, &share, &zero);
            p.gx(i, gx);
        }
    }
    Ok(())
}
