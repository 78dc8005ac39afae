//! `ReduceProd`: `Y = ΠX` over axes ⇒ `dX_i = dY · Π_{j ≠ i} X_j`, also if elements are 0.
//!
//! The product of the others is `Π / X_i` if no element is 0. With one zero, it is the product of the rest at that
//! element and 0 elsewhere. With more zeros, it is 0. Products are computed by halving, so that a row's bits do not
//! depend on other rows.

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceProd", backward };

/// `Y`, with extent 1 along the reduced axes.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize]) -> Var {
    let mut product = x.clone();
    for &axis in axes {
        while product.shape[axis] > 1 {
            let length = product.shape[axis];
            let half = length / 2;
            let left = em.slice(&product, &[(axis, 0, 1, half)]);
            let right = em.slice(&product, &[(axis, half, 1, half)]);
            let both = em.mul(&left, &right);
            product = if length.is_multiple_of(2) {
                both
            } else {
                let last = em.slice(&product, &[(axis, length - 1, 1, 1)]);
                em.concat(&[&both, &last], axis)
            };
        }
    }
    product
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let axes = p.reduced_axes()?;
    let (zero, one) = (p.em.scalar(x.dtype, 0.0), p.em.scalar(x.dtype, 1.0));
    let is_zero = p.em.compare("Equal", &x, &zero);
    let counted = p.em.choose(&is_zero, &one, &zero);
    let zeros = p.em.reduce_sum(&counted, &axes, true);
    let nonzero = p.em.choose(&is_zero, &one, &x);
    let product = forward(p.em, &nonzero, &axes);
    let without = p.em.div(&product, &nonzero);
    // Zeros other than the element itself.
    let others = p.em.sub(&zeros, &counted);
    let some = p.em.compare("Greater", &others, &zero);
    let derivative = p.em.choose(&some, &zero, &without);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
