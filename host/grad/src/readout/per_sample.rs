//! The `per-sample` readout: every gradient materialised, `[N, *shape]`.
//!
//! Memory: `N · D` floats, `D` being the number of trained parameters.

use super::read::ParamGrad;
use crate::emit::{Emitter, Var};

/// One tensor a parameter.
pub fn per_sample(em: &mut Emitter, grads: &[ParamGrad]) -> Vec<Var> {
    grads.iter().map(|read| read.grad.dense(em)).collect()
}
