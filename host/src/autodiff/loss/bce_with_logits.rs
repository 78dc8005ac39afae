//! `bce-with-logits`: `ℓ = mean (max(z, 0) − z·t + ln(1 + exp(−|z|)))` over the sample's `n` elements, which overflows for
//! no `z` ⇒ `dz = (σ(z) − t) / n`.

use super::{Head, labels, sum_each};
use crate::autodiff::emit::{Emitter, Var};

/// Loss `[N]`, labels of the output's shape, gradient.
pub fn emit(em: &mut Emitter, z: &Head) -> (Var, Option<Var>, Var) {
    let z = &z.var;
    let labels = labels(z.dtype, &z.shape[1..]);
    let count = z.len() as f64;
    let hinge = em.unary("Relu", z);
    let product = em.mul(z, &labels);
    let linear = em.sub(&hinge, &product);
    let magnitude = em.unary("Abs", z);
    let minus = em.unary("Neg", &magnitude);
    let small = em.unary("Exp", &minus);
    let one = em.scalar(z.dtype, 1.0);
    let sum = em.add(&one, &small);
    let soft = em.log(&sum);
    let each = em.add(&linear, &soft);
    let sum = sum_each(em, &each);
    let loss = em.scale(&sum, 1.0 / count);
    let probability = em.unary("Sigmoid", z);
    let difference = em.sub(&probability, &labels);
    let grad = em.scale(&difference, 1.0 / count);
    (loss, Some(labels), grad)
}
