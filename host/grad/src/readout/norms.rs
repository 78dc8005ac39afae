//! `norms` readout: `‖g_n‖` over all trained parameters together.
//!
//! Each factored gradient's squared norm is computed by Gram matrices or from the gradient itself. The estimated cost
//! decides (Lee and Kifer, arXiv 2009.03106, and Li et al., arXiv 2110.05679). The choice is made per layer (Bu et al.,
//! arXiv 2205.10683).
//!
//! Memory: the Gram matrices of one parameter, `3 · N · T²` floats, or its gradients. Both are freed after the
//! parameter's norm.

use super::read::{GradStrategy, ParamGrad, Readout};
use crate::emit::{Emitter, Var};
use crate::factor::{Costs, FactoredGrad, Grad, norm_squared, rounding, sum_of_squares};
use damper_onnx::graph::DType;

/// Maximum number of gradient entries per sample that stay materialised until the sum over samples.
const KEPT: usize = 1 << 22;

/// Gradient in the form from which its norm was computed.
pub enum NormForm {
    /// Materialised, `[N, *shape]`.
    Materialised(Var),
    /// By Gram matrices.
    Factored(FactoredGrad),
}

/// Squared norms of the samples' gradients.
pub struct Squares {
    /// `‖g_n‖²`, `[N]`.
    pub total: Var,
    /// Maximum rounding error of Gram matrices in units of rounding, `[N]`. `None` without Gram matrices.
    pub scatter: Option<Var>,
    /// Forms of the gradients, one per parameter.
    pub forms: Vec<NormForm>,
}

/// Emits `dp.norm`, `[N]` of float type `dtype`.
pub fn norms(em: &mut Emitter, grads: &[ParamGrad], dtype: DType, strategies: &[GradStrategy]) -> Var {
    let squares = squares(em, grads, dtype, strategies);
    em.unary("Sqrt", &squares.total)
}

/// Emits the squared norms, each by its strategy.
pub fn squares(em: &mut Emitter, grads: &[ParamGrad], dtype: DType, strategies: &[GradStrategy]) -> Squares {
    let (mut total, mut scatter): (Option<Var>, Option<Var>) = (None, None);
    let mut forms = Vec::with_capacity(grads.len());
    for (read, strategy) in grads.iter().zip(strategies) {
        let (squared, form) = match &read.grad {
            Grad::Factored(factors) if matches!(strategy, GradStrategy::Gram(_)) => {
                let (squared, relative_to) = norm_squared(em, factors);
                let errors = em.scale(&relative_to, rounding(factors));
                let errors = em.cast(&errors, dtype);
                scatter = Some(plus(em, scatter, &errors));
                (squared, NormForm::Factored(factors.clone()))
            }
            grad => {
                let grad = match grad {
                    Grad::Factored(factors) => factors.materialise_at_once(em),
                    Grad::Dense(grad) => grad.clone(),
                };
                (sum_of_squares(em, &grad), NormForm::Materialised(grad))
            }
        };
        let squared = em.cast(&squared, dtype);
        total = Some(plus(em, total, &squared));
        forms.push(form);
    }
    let total = total.expect("a parameter is trained");
    Squares { total, scatter, forms }
}

fn plus(em: &mut Emitter, sum: Option<Var>, next: &Var) -> Var {
    match sum {
        Some(sum) => em.add(&sum, next),
        None => next.clone(),
    }
}

/// Strategy of each gradient: the cheaper by estimated cost. For a sum, materialises the smallest gradients first, up
/// to the memory limit.
pub fn strategies(grads: &[ParamGrad], readout: Readout) -> Vec<GradStrategy> {
    let sum = readout == Readout::ClippedSum;
    let whole = matches!(readout, Readout::PerSample | Readout::Factored { .. });
    let mut order: Vec<usize> = (0..grads.len()).collect();
    let len = |i: usize| grads[i].shape.iter().product::<usize>();
    order.sort_by_key(|&i| len(i));
    let mut kept = 0;
    let mut strategies = vec![GradStrategy::Dense; grads.len()];
    for i in order {
        strategies[i] = match &grads[i].grad {
            Grad::Factored(factors) => {
                let costs = Costs::of(factors, sum);
                let fits = costs.materialised <= costs.gram && (!sum || kept + len(i) <= KEPT);
                if fits || whole { GradStrategy::Materialised(costs) } else { GradStrategy::Gram(costs) }
            }
            Grad::Dense(_) => GradStrategy::Dense,
        };
        kept += if matches!(strategies[i], GradStrategy::Materialised(_) | GradStrategy::Dense) { len(i) } else { 0 };
    }
    strategies
}
