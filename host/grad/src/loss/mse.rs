//! `mse`: `ℓ = mean (z − t)²` over the sample's `n` elements ⇒ `dz = 2 (z − t) / n`. Summed: both times `n`.

use super::head::Head;
use super::labels::labels;
use super::sums::sum_each;
use crate::emit::{Emitter, Var};
use crate::options::LossReduction;

/// Loss `[N]`, labels of the output's shape, gradient.
pub fn emit(em: &mut Emitter, z: &Head, reduction: LossReduction) -> (Var, Option<Var>, Var) {
    let labels = labels(z.var.dtype, z.rest());
    let count = match reduction {
        LossReduction::Mean => z.var.len() as f64,
        LossReduction::Sum => 1.0,
    };
    let difference = em.sub(&z.var, &labels);
    let square = em.mul(&difference, &difference);
    let sum = sum_each(em, &square);
    let loss = em.scale(&sum, 1.0 / count);
    let grad = em.scale(&difference, 2.0 / count);
    (loss, Some(labels), grad)
}
