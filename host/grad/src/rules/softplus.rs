//! `Softplus`: `Y = ln(1 + exp(X))` ⇒ `dX = dY · σ(X)`.
//!
//! Emitted as `max(X, 0) + ln(1 + exp(−|X|))`, which never overflows.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use damper_onnx::graph::DType;

pub const RULE: GradRule = GradRule { op: "Softplus", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let magnitude = em.unary("Abs", x);
    let minus = em.unary("Neg", &magnitude);
    let u = em.unary("Exp", &minus);
    let soft = log_of_one_more(em, &u);
    let hinge = em.unary("Relu", x);
    em.add(&hinge, &soft)
}

/// `ln(1 + u)` for `u` in `[0, 1]`: `2 artanh(z)`, `z = u / (2 + u) ≤ 1/3`, by its power series. The runtimes' own
/// logarithm has other bits at the end of a tensor (see [`Emitter::log`]), and avoiding that would take sixteen times
/// the memory.
fn log_of_one_more(em: &mut Emitter, u: &Var) -> Var {
    // The first omitted term is below half a unit in the last place.
    let terms = if u.dtype == DType::F64 { 16 } else { 8 };
    let two = em.scalar(u.dtype, 2.0);
    let more = em.add(u, &two);
    let z = em.div(u, &more);
    let square = em.mul(&z, &z);
    let coefficient = |k: usize| 2.0 / (2 * k + 1) as f64;
    let mut sum = em.scalar(u.dtype, coefficient(terms - 1));
    for k in (0..terms - 1).rev() {
        let product = em.mul(&square, &sum);
        let next = em.scalar(u.dtype, coefficient(k));
        sum = em.add(&product, &next);
    }
    em.mul(&z, &sum)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let derivative = p.em.unary("Sigmoid", &x);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
