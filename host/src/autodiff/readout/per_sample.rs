//! The `per-sample` readout: every gradient materialised, `[N, *shape]`.
//!
//! Memory: `N · D` floats, `D` being the number of trained parameters.

use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::factor::Grad;
use crate::graph::DType;

/// One tensor a parameter; zeros for a parameter that the loss does not depend on. `shapes` are the parameters'.
pub fn per_sample(em: &mut Emitter, grads: &[Option<Grad>], shapes: &[(DType, Vec<usize>)]) -> Vec<Var> {
    let mut read = Vec::with_capacity(grads.len());
    for (grad, (dtype, shape)) in grads.iter().zip(shapes) {
        read.push(match grad {
            Some(grad) => grad.dense(em),
            None => em.filled(*dtype, 0.0, shape),
        });
    }
    read
}
