//! The `norms` readout: `‖g_n‖`, over all trained parameters together.
//!
//! Each factored gradient's squared norm is taken by Gram matrices or of the gradient itself, whichever is counted to cost
//! less (Lee and Kifer, arXiv 2009.03106; Li et al., arXiv 2110.05679; the choice a layer: Bu et al., arXiv 2205.10683).
//!
//! Memory: the Gram matrices of one parameter, `3 · N · T²` floats, or its gradients; each is free again after its norm.

use super::read::{GradStrategy, ParamGrad, Readout};
use crate::emit::{Emitter, Var};
use crate::factor::{Costs, FactoredGrad, Grad, norm_squared, rounding, sum_of_squares};
use damper_onnx::graph::DType;

/// Gradients of at most so many entries a sample are kept materialised together until the sum over the samples.
const KEPT: usize = 1 << 22;

/// A gradient in the form in which its norm was taken.
pub enum NormForm {
    /// `[N, *shape]`.
    Materialised(Var),
    /// By Gram matrices.
    Factored(FactoredGrad),
}

/// The squared norms of the samples' gradients.
pub struct Squares {
    /// `‖g_n‖²`, `[N]`.
    pub total: Var,
    /// The rounding errors of Gram matrices in units of rounding, at most, `[N]`; none where there were none.
    pub scatter: Option<Var>,
    /// One a parameter.
    pub forms: Vec<NormForm>,
}

/// `dp.norm`, `[N]` of float type `dtype`.
pub fn norms(em: &mut Emitter, grads: &[ParamGrad], dtype: DType, strategies: &[GradStrategy]) -> Var {
    let squares = squares(em, grads, dtype, strategies);
    em.unary("Sqrt", &squares.total)
}

/// The squared norms, each gradient taken its way.
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

/// The way of each gradient: of the two, the one that is counted to cost less; for a sum only as many are materialised, the
/// smallest first, as may be kept.
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
