//! `per-sample` readout: every gradient is materialised, `[N, *shape]`.
//!
//! Memory: `N · D` floats, with `D` the number of trained parameters.

use super::read::ParamGrad;
use crate::emit::{Emitter, Var};

/// Emits one tensor per parameter.
pub fn per_sample(em: &mut Emitter, grads: &[ParamGrad]) -> Vec<Var> {
    grads.iter().map(|read| read.grad.dense(em)).collect()
}
