//! `Mish`: `Y = X · t`, `t = tanh(ln(1 + exp(X)))` ⇒ `dX = dY · (t + X · (1 − t²) · σ(X))`.
//!
//! With `u = exp(−|X|)`, which never overflows, `t = (1 + 2u) / (1 + 2u + 2u²)` if `X > 0`, else
//! `u(u + 2) / (u(u + 2) + 2)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Mish", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var) -> Var {
    let gate = gate(em, x);
    em.mul(x, &gate)
}

/// Emits the factor `t`.
fn gate(em: &mut Emitter, x: &Var) -> Var {
    let [zero, one, two] = [0.0, 1.0, 2.0].map(|v| em.scalar(x.dtype, v));
    let magnitude = em.unary("Abs", x);
    let minus = em.unary("Neg", &magnitude);
    let u = em.unary("Exp", &minus);
    let twice = em.mul(&u, &two);
    let square = em.mul(&u, &u);
    let positive = em.compare("Greater", x, &zero);
    let above = em.add(&twice, &one);
    let below = em.add(&square, &twice);
    let numerator = em.choose(&positive, &above, &below);
    let two_squares = em.mul(&square, &two);
    let rest = em.choose(&positive, &two_squares, &two);
    let denominator = em.add(&numerator, &rest);
    em.div(&numerator, &denominator)
}

/// `σ(X)` without the runtimes' rounding errors far below 0, which would be multiplied by `X`.
fn sigmoid(em: &mut Emitter, x: &Var) -> Var {
    let [zero, one] = [0.0, 1.0].map(|v| em.scalar(x.dtype, v));
    let magnitude = em.unary("Abs", x);
    let minus = em.unary("Neg", &magnitude);
    let u = em.unary("Exp", &minus);
    let whole = em.add(&u, &one);
    let positive = em.compare("Greater", x, &zero);
    let share = em.choose(&positive, &one, &u);
    em.div(&share, &whole)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let gate = gate(p.em, &x);
    let one = p.em.scalar(x.dtype, 1.0);
    let square = p.em.mul(&gate, &gate);
    let rest = p.em.sub(&one, &square);
    let sigmoid = sigmoid(p.em, &x);
    let derivative = p.em.mul(&rest, &sigmoid);
    let across = p.em.mul(&x, &derivative);
    let whole = p.em.add(&gate, &across);
    let gx = p.em.mul(&gy, &whole);
    p.gx(0, gx);
    Ok(())
}
