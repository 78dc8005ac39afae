//! `Gelu`: `Y = X · Φ(X)` ⇒ `dX = dY · (Φ(X) + X · φ(X))`, with the normal distribution `Φ = (1 + erf(X/√2)) / 2`. With
//! `approximate = tanh`, `Φ ≈ (1 + tanh(u)) / 2 = σ(2u)`, `u = √(2/π) · (X + 0.044715 · X³)`,
//! `φ ≈ 2u' · σ(2u) · (1 − σ(2u))`.
//!
//! With `v = exp(−2|u|)`, which never overflows, `σ(2u) = 1 / (1 + v)` if `u > 0`, else `v / (1 + v)`, and
//! `σ · (1 − σ) = v / (1 + v)²`. A difference of rounded values would be multiplied by about `X³`.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI};

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::gelu;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "Gelu", backward };

/// Weight of the cube in the approximation.
const CUBIC: f64 = 0.044715;

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, approximate: bool) -> Var {
    gelu(em, "Gelu", &[x], approximate, |em| {
        let below = if approximate { approximation(em, x).0 } else { distribution(em, x) };
        em.mul(x, &below)
    })
}

/// Emits `Φ(X)`.
fn distribution(em: &mut Emitter, x: &Var) -> Var {
    let scaled = em.scale(x, FRAC_1_SQRT_2);
    let erf = em.unary("Erf", &scaled);
    let half = em.scalar(x.dtype, 0.5);
    let scaled = em.mul(&erf, &half);
    em.add(&scaled, &half)
}

/// Approximate `Φ(X)`, and `σ · (1 − σ)`.
fn approximation(em: &mut Emitter, x: &Var) -> (Var, Var) {
    let stretch = polynomial(em, x, CUBIC);
    let u = em.mul(x, &stretch);
    let magnitude = em.unary("Abs", &u);
    let exponent = em.scale(&magnitude, -2.0);
    let v = em.unary("Exp", &exponent);
    let (zero, one) = (em.scalar(x.dtype, 0.0), em.scalar(x.dtype, 1.0));
    let whole = em.add(&v, &one);
    let above = em.div(&one, &whole);
    let below = em.div(&v, &whole);
    let positive = em.compare("Greater", &u, &zero);
    (em.choose(&positive, &above, &below), em.mul(&above, &below))
}

/// `√(2/π) · (1 + c · X²)`.
fn polynomial(em: &mut Emitter, x: &Var, c: f64) -> Var {
    let square = em.mul(x, x);
    let scaled = em.scale(&square, FRAC_2_PI.sqrt() * c);
    let root = em.scalar(x.dtype, FRAC_2_PI.sqrt());
    em.add(&scaled, &root)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let approximate = p.string("approximate") == "tanh";
    let gx = gelu(p.em, "GeluGrad", &[&gy, &x], approximate, |em| {
        let (below, density) = if approximate {
            let (below, product) = approximation(em, &x);
            let derivative = polynomial(em, &x, 3.0 * CUBIC);
            let half = em.mul(&product, &derivative);
            (below, em.scale(&half, 2.0))
        } else {
            let square = em.mul(&x, &x);
            let exponent = em.scale(&square, -0.5);
            let bell = em.unary("Exp", &exponent);
            (distribution(em, &x), em.scale(&bell, 1.0 / (2.0 * PI).sqrt()))
        };
        let across = em.mul(&x, &density);
        let derivative = em.add(&below, &across);
        em.mul(&gy, &derivative)
    });
    p.gx(0, gx);
    Ok(())
}
