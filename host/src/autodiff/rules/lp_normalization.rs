//! `LpNormalization` along an axis: `Y = X / ‖X‖_p`, and 0 where the norm is 0 ⇒ `dX = (dY − s · Σ dY · Y) / ‖X‖_p` with `s = Y`
//! for `p = 2`, `s = sign(X)` for `p = 1`, and 0 where the norm is 0.

use super::Rule;
use super::reduce_l2::over_norm;
use super::{reduce_l1, reduce_l2};
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_int;

pub const RULE: Rule = Rule { op: "LpNormalization", pull, cases };

/// `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axis: usize, p: i64) -> Var {
    let norm = norm(em, x, axis, p);
    over_norm(em, x, &norm)
}

fn norm(em: &mut Emitter, x: &Var, axis: usize, p: i64) -> Var {
    if p == 1 { reduce_l1::forward(em, x, &[axis], true) } else { reduce_l2::forward(em, x, &[axis], true) }
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, y, gy) = (p.x(0), p.y(), p.gy());
    let order = p.int("p", 2);
    let axis = p.int("axis", -1).rem_euclid(x.rank() as i64) as usize;
    let norm = norm(p.em, &x, axis, order);
    let product = p.em.mul(&gy, &y);
    let along = p.em.reduce_sum(&product, &[axis + p.shift()], true);
    let direction = if order == 1 { p.em.unary("Sign", &x) } else { y };
    let part = p.em.mul(&direction, &along);
    let rest = p.em.sub(&gy, &part);
    let gx = over_norm(p.em, &rest, &norm);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let one = |name, p, axis, zeros: bool| {
        let mut b = GraphBuilder::new(17);
        let mut x = b.activation(&[2, 3]);
        if zeros {
            let rows = b.floats(&[2, 1], &[0.0, 1.0]);
            x = b.node("Mul", &[x, rows], vec![], &[1, 2, 3]);
        }
        let attributes = vec![make_attr_int("p", p), make_attr_int("axis", axis)];
        let y = b.node("LpNormalization", &[x], attributes, &[1, 2, 3]);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[2, 3]));
    let unit = parameter.node("LpNormalization", &[w], vec![make_attr_int("axis", 0)], &[2, 3]);
    let y = parameter.node("Mul", &[x, unit], vec![], &[1, 2, 3]);
    vec![
        one("p = 2", 2, -1, false),
        one("p = 1, an inner axis", 1, 1, false),
        one("a row of zeros", 2, 2, true),
        parameter.case("of a parameter", y),
    ]
}
