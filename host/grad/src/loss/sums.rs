//! Sums of a sample over its tokens or elements.

use crate::emit::{Emitter, Var};

/// Sum of each sample's elements: `[N]`.
pub fn sum_each(em: &mut Emitter, x: &Var) -> Var {
    if x.len() == 1 {
        return em.per_sample(x, &[]);
    }
    let axes: Vec<usize> = (1..x.rank()).collect();
    em.reduce_sum(x, &axes, false)
}

/// Divisor of a sample's sum over elements, `[N, 1, …]` with as many axes as `counted`: the number of counted elements,
/// or 1 without any.
pub fn divisor(em: &mut Emitter, counted: &Var) -> Var {
    let axes: Vec<usize> = (1..counted.rank()).collect();
    let count = em.reduce_sum(counted, &axes, true);
    let one = em.scalar(counted.dtype, 1.0);
    em.binary("Max", &count, &one)
}
