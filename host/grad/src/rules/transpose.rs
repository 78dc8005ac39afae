//! `Transpose`: axes permuted ⇒ `dX` = `dY` permuted back, factored if `dY` is.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::{Grad, behind_samples};

pub const RULE: GradRule = GradRule { op: "Transpose", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let rank = p.x(0).rank();
    let perm = match p.ints("perm") {
        Some(perm) => perm.iter().map(|&a| a as usize).collect(),
        None => (0..rank).rev().collect::<Vec<_>>(),
    };
    let inverse: Vec<usize> = (0..rank).map(|i| perm.iter().position(|&a| a == i).expect("a permutation")).collect();
    match p.gy_any() {
        Grad::Factored(factors) => {
            let factors = factors.transpose(&inverse);
            p.gx_factored(0, factors);
        }
        Grad::Dense(gy) => {
            let inverse = if p.shift() == 1 { behind_samples(&inverse) } else { inverse };
            let gx = p.em.transpose(&gy, &inverse);
            p.gx(0, gx);
        }
    }
    Ok(())
}
