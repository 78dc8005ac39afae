//! A sample's sums over its tokens or elements.

use crate::emit::{Emitter, Var};

/// The sum of each sample's elements: `[N]`.
pub fn sum_each(em: &mut Emitter, x: &Var) -> Var {
    if x.len() == 1 {
        return em.per_sample(x, &[]);
    }
    let axes: Vec<usize> = (1..x.rank()).collect();
    em.reduce_sum(x, &axes, false)
}

/// What a sample's sum over elements is divided by, `[N, 1, …]` of as many axes as `counted`: the number of its ones,
/// and 1 where there is none.
pub fn divisor(em: &mut Emitter, counted: &Var) -> Var {
    let axes: Vec<usize> = (1..counted.rank()).collect();
    let count = em.reduce_sum(counted, &axes, true);
    let one = em.scalar(counted.dtype, 1.0);
    em.binary("Max", &count, &one)
}
