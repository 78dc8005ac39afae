//! `clipped-sum` readout: `Σ_n w_n · min(1, C/‖g_n‖) · g_n`, a single vector of the gradient's size.
//!
//! If a gradient was materialised for its norm, the sum is weights times gradients. Otherwise it is one contraction of
//! the factors over samples and positions, and no sample's gradient is ever formed.
//!
//! Memory: the factors of all layers, and the materialised gradients.
//!
//! # Privacy
//!
//! **Not exact**: the bound holds in the backend's floats. The factor is `C(1 − 2^-k)/‖g_n‖` with `2^-k` = 64 units of
//! rounding. Squared norms from Gram matrices are increased by their maximum rounding error (`factor::norm`). So a
//! sample contributes at most `C` if the runtime's norms and products are exact within that margin. Rows of weight 0,
//! and rows with a non-finite squared norm, contribute exactly 0 for any values because they are masked.

use super::norms::{NormForm, squares};
use super::read::{GradStrategy, ParamGrad};
use crate::custom;
use crate::emit::{BATCH_FIRST, Emitter, Var};
use crate::factor::weighted_sum;
use damper_onnx::graph::DType;

/// Name of the clip's input.
const CLIP: &str = "dp.clip";
/// Name of the weights' input.
const WEIGHT: &str = "dp.weight";

/// Margin by which the factor is too low, in units of rounding.
const SLACK: f64 = 64.0;

/// Inputs of a clipped sum.
pub struct ClipInputs {
    /// `dp.clip`, a scalar.
    pub clip: Var,
    /// `dp.weight`, `[N]`.
    pub weight: Var,
}

impl ClipInputs {
    /// Inputs of float type `dtype`.
    pub fn new(dtype: DType) -> Self {
        let clip = Var { name: CLIP.into(), dtype, shape: vec![], batch: None };
        Self { clip, weight: Var { name: WEIGHT.into(), dtype, shape: vec![1], batch: Some(BATCH_FIRST) } }
    }
}

/// Emits `dp.norm` `[N]`, and `dp.sum` in the parameter's shape for each parameter.
pub fn clipped_sum(
    em: &mut Emitter,
    grads: &[ParamGrad],
    strategies: &[GradStrategy],
    bounds: &ClipInputs,
) -> (Var, Vec<Var>) {
    let dtype = bounds.clip.dtype;
    let unit = if dtype == DType::F64 { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
    let squares = squares(em, grads, dtype, strategies);
    let norm = em.unary("Sqrt", &squares.total);
    let above = match &squares.scatter {
        Some(scatter) => {
            let rounding = em.scale(scatter, unit);
            let above = em.add(&squares.total, &rounding);
            em.unary("Sqrt", &above)
        }
        None => norm.clone(),
    };
    let limit = em.scale(&bounds.clip, 1.0 - SLACK * unit);
    let divisor = em.binary("Max", &above, &limit);
    let factor = em.div(&limit, &divisor);

    let infinity = em.scalar(dtype, f64::INFINITY);
    let zero = em.scalar(dtype, 0.0);
    let is_finite = em.compare("Less", &above, &infinity);
    let counts = em.compare("Greater", &bounds.weight, &zero);
    let keep = em.node("And", &[&is_finite, &counts], vec![], DType::Bool, vec![1], Some(BATCH_FIRST));
    let factor = em.choose(&keep, &factor, &zero);

    let mut sums = Vec::with_capacity(grads.len());
    for (read, form) in grads.iter().zip(&squares.forms) {
        let weight = em.cast(&factor, read.dtype);
        sums.push(match form {
            NormForm::Materialised(grad) => {
                let len = read.shape.iter().product();
                let rows = em.per_sample(grad, &[len]);
                let sum = custom::weighted_sum(em, &weight, &rows);
                em.reshape(&sum, &read.shape, None)
            }
            NormForm::Factored(factors) => weighted_sum(em, factors, &keep, &weight),
        });
    }
    (norm, sums)
}
