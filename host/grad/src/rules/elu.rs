//! `Elu`: `Y = X` if `X > 0`, else `α · (exp(X) − 1)` ⇒ `dX = dY` or `dY · α · exp(X)` (the latter at 0, as in
//! PyTorch).
//!
//! `exp` is applied to `min(X, 0)`, so it never overflows.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Elu", backward };

/// `γ · X` if `X > 0`, else `γ · α · (exp(β · X) − 1)`: the common form of `Elu`, `Celu` and `Selu`.
pub struct Exponential {
    pub alpha: f64,
    pub beta: f64,
    pub gamma: f64,
}

impl Exponential {
    /// `Elu` with `α`.
    pub fn elu(alpha: f64) -> Self {
        Self { alpha, beta: 1.0, gamma: 1.0 }
    }

    /// Emits the output `Y`.
    pub fn forward(&self, em: &mut Emitter, x: &Var) -> Var {
        let exp = self.exp(em, x);
        let one = em.scalar(x.dtype, 1.0);
        let less = em.sub(&exp, &one);
        let low = em.scale(&less, self.gamma * self.alpha);
        let high = em.scale(x, self.gamma);
        let zero = em.scalar(x.dtype, 0.0);
        let positive = em.compare("Greater", x, &zero);
        em.choose(&positive, &high, &low)
    }

    /// Adds the gradient `dX`.
    pub fn backward(&self, p: &mut BackwardContext<'_>) {
        let (x, gy) = (p.x(0), p.gy());
        let exp = self.exp(p.em, &x);
        let low = p.em.scale(&exp, self.gamma * self.alpha * self.beta);
        let high = p.em.scalar(x.dtype, self.gamma);
        // For NaN, uses the derivative of the line, which is finite, in case a `Where` discarded it.
        let zero = p.em.scalar(x.dtype, 0.0);
        let curved = p.em.compare("LessOrEqual", &x, &zero);
        let derivative = p.em.choose(&curved, &low, &high);
        let gx = p.em.mul(&gy, &derivative);
        p.gx(0, gx);
    }

    fn exp(&self, em: &mut Emitter, x: &Var) -> Var {
        let zero = em.scalar(x.dtype, 0.0);
        let low = em.binary("Min", x, &zero);
        let scaled = em.scale(&low, self.beta);
        em.unary("Exp", &scaled)
    }
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    Exponential::elu(p.float("alpha", 1.0)).backward(p);
    Ok(())
}
