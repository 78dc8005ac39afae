//! `softmax-cross-entropy`: per token `ℓ = −ln p[label]`, with `p = softmax(z)` over the class axis, from `z − max z`.
//! The loss is the mean over the sample's counted tokens, or 0 without any ⇒ `dz = (p − onehot(label)) / counted` for
//! counted tokens, else 0. Summed: both times the number of counted tokens.
//!
//! `causal-lm` compares each token's logits with the next token's label. It omits the last logits and the first label.
//!
//! A token with the label −100 is not counted. The label is compared with each class index and never used as an index.
//! [`LabelWeights`](crate::options::LabelWeights) change both formulas (see `label_weights`). `Where` masks uncounted
//! tokens, so non-finite values in them do not spread.

use super::head::Head;
use super::label_weights::{self, LogitRows};
use super::labels::{IGNORED, labels};
use super::probabilities::Probabilities;
use super::sums::divisor;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::options::{DeriveOptions, Loss, LossReduction};
use damper_onnx::graph::{DType, Tensor, TensorData};

/// Emits the loss `[N]`, the labels int64 with the output's shape without the class axis, and the gradient.
pub fn emit(
    em: &mut Emitter,
    z: &Head,
    name: &str,
    options: &DeriveOptions,
) -> Result<(Var, Option<Var>, Var), DeriveError> {
    let rank = z.var.rank() as i64;
    let axis = options.class_axis.unwrap_or(-1);
    let axis = if axis < 0 { axis + rank } else { axis };
    if !(1..rank).contains(&axis) {
        return Err(DeriveError::new(
            format!("output {name}"),
            format!("it has {rank} axes with the samples on axis 0, so axis {axis} cannot hold its classes"),
            "name the class axis with `class_axis`, or the output with `output`",
        ));
    }
    let axis = axis as usize;
    let shifts = options.loss == Loss::CausalLm;
    let classes = z.var.shape[axis];
    let tokens_shape: Vec<usize> = (1..z.var.rank()).filter(|&i| i != axis).map(|i| z.var.shape[i]).collect();
    let tokens: usize = tokens_shape.iter().product();
    let labels = labels(DType::I64, &tokens_shape);

    // [N, T, V] with the classes last, or [N, V] for a single token.
    let to_last: Vec<usize> = (0..z.var.rank()).filter(|&i| i != axis).chain([axis]).collect();
    let moved = em.transpose(&z.var, &to_last);
    let single = tokens_shape.is_empty();
    let rows = if single { moved.clone() } else { em.per_sample(&moved, &[tokens, classes]) };
    let last = rows.rank() - 1;
    let label = em.per_sample(&labels, &[tokens, 1][single as usize..]);
    let (rows, label) = match shifts {
        true if (rank, axis) != (3, 2) || tokens < 2 => return Err(no_texts(name)),
        true => (em.slice(&rows, &[(1, 0, 1, tokens - 1)]), em.slice(&label, &[(1, 1, 1, tokens - 1)])),
        false => (rows, label),
    };

    let Probabilities { probability, log_probability } = Probabilities::new(em, &rows, last);

    let numbers = em.ints(&(0..classes as i64).collect::<Vec<_>>());
    let is_label = em.compare("Equal", &label, &numbers);
    let ignored = em.constant(Tensor { shape: vec![], data: TensorData::I64(vec![IGNORED]) });
    let is_ignored = em.compare("Equal", &label, &ignored);
    let zero = em.scalar(z.var.dtype, 0.0);
    let one = em.scalar(z.var.dtype, 1.0);
    let (each, difference) = if options.label_weights.is_plain() {
        let less = em.sub(&probability, &one);
        (em.choose(&is_label, &log_probability, &zero), em.choose(&is_label, &less, &probability))
    } else {
        let rows = LogitRows {
            log_probability: &log_probability,
            probability: &probability,
            is_label: &is_label,
            is_ignored: &is_ignored,
        };
        label_weights::emit(em, &rows, &options.label_weights, classes)?
    };
    let axes: Vec<usize> = (1..rows.rank()).collect();
    let total = em.reduce_sum(&each, &axes, false);
    let grad = em.choose(&is_ignored, &zero, &difference);
    let loss = em.unary("Neg", &total);
    let (loss, grad) = if single || options.reduction == LossReduction::Sum {
        (loss, grad)
    } else {
        let counted = em.choose(&is_ignored, &zero, &one);
        let divisor = divisor(em, &counted);
        let grad = em.div(&grad, &divisor);
        let divisor = em.per_sample(&divisor, &[]);
        (em.div(&loss, &divisor), grad)
    };
    let grad = if shifts { em.pad(&grad, &[(0, 0), (0, 1), (0, 0)], 0.0) } else { grad };
    let spread = em.per_sample(&grad, &moved.shape[1..]);
    let back: Vec<usize> = (0..to_last.len()).map(|i| to_last.iter().position(|&p| p == i).expect("in it")).collect();
    let grad = em.transpose(&spread, &back);
    Ok((loss, Some(labels), grad))
}

fn no_texts(name: &str) -> DeriveError {
    DeriveError::new(
        format!("output {name}"),
        "it is not `[N, S, K]`, the logits of K tokens at two or more places",
        "name the output that has them with `output`",
    )
}
