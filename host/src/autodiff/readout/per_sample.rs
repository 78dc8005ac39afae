//! The `per-sample` readout: every gradient materialised, `[N, *shape]`.
//!
//! Memory: `N · D` floats, `D` being the number of trained parameters.

use super::Read;
use crate::autodiff::emit::{Emitter, Var};

/// One tensor a parameter; zeros for a parameter that the loss does not depend on.
pub fn per_sample(em: &mut Emitter, grads: &[Read]) -> Vec<Var> {
    let mut read = Vec::with_capacity(grads.len());
    for Read { grad, dtype, shape } in grads {
        read.push(match grad {
            Some(grad) => grad.dense(em),
            None => em.filled(*dtype, 0.0, shape),
        });
    }
    read
}
