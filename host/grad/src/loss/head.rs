//! Output that a loss reads.

use crate::emit::{Emitter, Var};

/// Output that a loss reads, with the samples first: `[N, *rest]`.
pub struct Head {
    pub var: Var,
    original: Var,
}

impl Head {
    /// Head for `output`, which must be batched.
    pub fn new(em: &mut Emitter, output: &Var) -> Self {
        if output.is_batch_first() {
            return Self { var: output.clone(), original: output.clone() };
        }
        let batch = output.batch.expect("checked to be batched");
        let mut rest = output.shape.clone();
        if rest[batch.axis] == 1 {
            rest.remove(batch.axis);
        }
        Self { var: em.per_sample(output, &rest), original: output.clone() }
    }

    /// Shape of one sample.
    pub fn rest(&self) -> &[usize] {
        &self.var.shape[1..]
    }

    /// Gradient of `var` in the layout of the output.
    pub fn scatter(&self, em: &mut Emitter, grad: &Var) -> Var {
        let batch = self.original.batch.expect("checked to be batched");
        let grad = em.per_sample(grad, &self.original.shape);
        em.as_batched(&grad, &self.original.shape, batch)
    }
}
