//! Reduces gradients over broadcast axes, for all rules.
//!
//! A rule passes a contribution in the shape of its formula. It is that of the operator's output, or any shape that
//! broadcasts from or to the value. This module sums it over the axes along which the value was broadcast, and
//! broadcasts it along axes of extent 1. It never sums over samples: a value that is not batched gets `[N, *shape]`.

use super::emit::{BATCH_FIRST, Emitter, Var};
use damper_onnx::graph::{BatchAxis, Value};

/// `contribution` in the layout of `value`'s gradient.
pub fn unbroadcast(em: &mut Emitter, contribution: &Var, value: &Value) -> Var {
    match value.batch {
        Some(batch) => settle_batched(em, contribution, &value.shape, batch),
        None => settle_unbatched(em, contribution, &value.shape),
    }
}

fn settle_batched(em: &mut Emitter, c: &Var, shape: &[usize], batch: BatchAxis) -> Var {
    let lead = c.rank().saturating_sub(shape.len());
    let at = c.batch.expect("a contribution carries the batch").axis;
    let is_batch = |i: usize| i == at;
    let repeated = |i: usize| c.shape[i] != 1 && !is_batch(i) && (i < lead || shape[i - lead] == 1);
    let axes: Vec<usize> = (0..c.rank()).filter(|&i| repeated(i)).collect();
    let summed = em.reduce_sum(c, &axes, true);
    let mut aligned = vec![1; shape.len().saturating_sub(c.rank())];
    aligned.extend(&summed.shape[lead..]);
    let axis = BatchAxis { axis: batch.axis, ..summed.batch.unwrap() };
    let aligned = em.reshape(&summed, &aligned, Some(axis));
    em.expand(&aligned, shape, Some(batch))
}

fn settle_unbatched(em: &mut Emitter, c: &Var, shape: &[usize]) -> Var {
    let batch = c.batch.expect("a contribution carries the batch");
    // Position of c's axes, without the samples, among the value's axes: right-aligned.
    let lead = c.rank() as isize - shape.len() as isize;
    let target = |i: usize| usize::try_from(i as isize - lead).ok().map(|j| shape[j]);
    let wanted = |i: usize| c.shape[i] == 1 || target(i).is_some_and(|d| d != 1);

    // Split the batch axis into (outer, samples, inner).
    let mut split = Vec::new();
    let mut axes = Vec::new();
    let mut sample_axis = 0;
    for (i, &d) in c.shape.iter().enumerate() {
        let parts: &[usize] = if i == batch.axis { &[batch.outer, 1, batch.inner] } else { &[d] };
        for (k, &part) in parts.iter().enumerate() {
            let is_samples = i == batch.axis && k == 1;
            if is_samples {
                sample_axis = split.len();
            } else if i == batch.axis && part == 1 {
                continue;
            } else if !wanted(i) {
                axes.push(split.len());
            }
            split.push(part);
        }
    }
    let split = em.reshape(c, &split, Some(BatchAxis { axis: sample_axis, outer: 1, inner: 1 }));
    let summed = em.reduce_sum(&split, &axes, false);

    // Remaining axes, right-aligned, and broadcast along axes of extent 1.
    let left: Vec<usize> = (0..c.rank()).filter(|&i| wanted(i)).map(|i| c.shape[i]).collect();
    let mut aligned: Vec<usize> = (0..shape.len())
        .map(|j| usize::try_from(j as isize + lead).ok().filter(|&i| wanted(i)).map_or(1, |i| c.shape[i]))
        .collect();
    debug_assert_eq!(left.iter().product::<usize>(), aligned.iter().product::<usize>());
    let flat = em.per_sample(&summed, &aligned);
    aligned.insert(0, 1);
    let full: Vec<usize> = [&[1], shape].concat();
    em.expand(&flat, &full, Some(BATCH_FIRST))
}
