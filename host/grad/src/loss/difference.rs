//! Losses of the difference `d = z − t`, as a sum over the sample's `n` elements, or as their mean (times `1/n`):
//!
//! - `mse`: `d²` ⇒ `2 d`
//! - `l1`: `|d|` ⇒ the sign of `d`, 0 at 0
//! - `huber`: `c · (d − c/2)` ⇒ `c`, with `c` the difference clipped to [−1, 1]

use super::head::Head;
use super::labels::labels;
use super::sums::sum_each;
use crate::emit::{Emitter, Var};
use crate::options::{DeriveOptions, Loss, LossReduction};

/// Emits the loss `[N]`, the labels with the output's shape, and the gradient.
pub fn emit(em: &mut Emitter, z: &Head, options: &DeriveOptions) -> (Var, Option<Var>, Var) {
    let labels = labels(z.var.dtype, z.rest());
    let count = match options.reduction {
        LossReduction::Mean => z.var.len() as f64,
        LossReduction::Sum => 1.0,
    };
    let difference = em.sub(&z.var, &labels);
    let (each, grad, factor) = match options.loss {
        Loss::L1 => (em.unary("Abs", &difference), em.unary("Sign", &difference), 1.0),
        Loss::Huber => {
            let [low, high] = [-1.0, 1.0].map(|end| em.scalar(z.var.dtype, end));
            let above = em.binary("Max", &difference, &low);
            let clipped = em.binary("Min", &above, &high);
            let half = em.scale(&clipped, 0.5);
            let rest = em.sub(&difference, &half);
            (em.mul(&clipped, &rest), clipped, 1.0)
        }
        _ => (em.mul(&difference, &difference), difference, 2.0),
    };
    let sum = sum_each(em, &each);
    let loss = em.scale(&sum, 1.0 / count);
    let grad = em.scale(&grad, factor / count);
    (loss, Some(labels), grad)
}
