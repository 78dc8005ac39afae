//! Class probabilities.

use crate::custom::{Exponentials, softmax};
use crate::emit::{Emitter, Var};

/// `p = softmax(z)` over an axis, and `ln p` from `z − max z`, in the shape of `z`.
pub struct Probabilities {
    pub probability: Var,
    pub log_probability: Var,
}

impl Probabilities {
    /// Probabilities for logits `z` with the classes along `axis`.
    pub fn new(em: &mut Emitter, z: &Var, axis: usize) -> Self {
        let probability = softmax(em, z, axis);
        let exponentials = Exponentials::new(em, z, &[axis]);
        let log_sum = em.log(&exponentials.sum);
        let log_probability = em.sub(&exponentials.shifted, &log_sum);
        Self { probability, log_probability }
    }
}
