//! `bce-with-logits`: `ℓ = mean (max(z, 0) − z·t + ln(1 + exp(−|z|)))` over the sample's `n` counted elements, which
//! never overflows ⇒ `dz = (σ(z) − t) / n` for counted elements, else 0. Summed: both times `n`.
//!
//! An element with the label −100 is not counted. `Where` masks it, so non-finite values in it do not spread.

use super::head::Head;
use super::label_weights::{self, Signs};
use super::labels::{IGNORED, labels};
use super::sums::{divisor, sum_each};
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::options::{DeriveOptions, LossReduction};

/// Emits the loss `[N]`, the labels with the output's shape, and the gradient.
pub fn emit(em: &mut Emitter, z: &Head, options: &DeriveOptions) -> Result<(Var, Option<Var>, Var), DeriveError> {
    let z = &z.var;
    let labels = labels(z.dtype, &z.shape[1..]);
    let hinge = em.unary("Relu", z);
    let magnitude = em.unary("Abs", z);
    let minus = em.unary("Neg", &magnitude);
    let small = em.unary("Exp", &minus);
    let one = em.scalar(z.dtype, 1.0);
    let sum = em.add(&one, &small);
    let soft = em.log(&sum);
    let probability = em.unary("Sigmoid", z);
    let of = Signs { z, hinge: &hinge, soft: &soft, probability: &probability, labels: &labels };
    let (each, difference) = label_weights::of_signs(em, &of, &options.label_weights)?;

    let ignored = em.scalar(z.dtype, IGNORED as f64);
    let is_ignored = em.compare("Equal", &labels, &ignored);
    let zero = em.scalar(z.dtype, 0.0);
    let each = em.choose(&is_ignored, &zero, &each);
    let sum = sum_each(em, &each);
    let grad = em.choose(&is_ignored, &zero, &difference);
    // One element equals its mean.
    if options.reduction == LossReduction::Sum || z.len() == 1 {
        return Ok((sum, Some(labels), grad));
    }
    let counted = em.choose(&is_ignored, &zero, &one);
    let divisor = divisor(em, &counted);
    let grad = em.div(&grad, &divisor);
    let divisor = em.per_sample(&divisor, &[]);
    Ok((em.div(&sum, &divisor), Some(labels), grad))
}
