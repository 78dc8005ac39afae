//! `PRelu`: `Y = X` where `X > 0`, else `s · X` ⇒ `dX = dY` or `dY · s`, `ds = 0` or `dY · X` (the latter at 0, as PyTorch).

use super::Rule;
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::BatchAxis;

pub const RULE: Rule = Rule { op: "PRelu", pull, cases };

/// `Y`.
pub fn forward(em: &mut Emitter, x: &Var, slope: &Var) -> Var {
    let low = em.mul(x, slope);
    let positive = positive(em, x);
    em.choose(&positive, x, &low)
}

fn positive(em: &mut Emitter, x: &Var) -> Var {
    let zero = em.scalar(x.dtype, 0.0);
    em.compare("Greater", x, &zero)
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, slope, gy) = (p.x(0), p.x(1), p.gy());
    let positive = positive(p.em, &x);
    if p.wants(0) {
        let low = p.em.mul(&gy, &slope);
        let gx = p.em.choose(&positive, &gy, &low);
        p.gx(0, gx);
    }
    if p.wants(1) {
        let zero = p.em.scalar(x.dtype, 0.0);
        let product = p.em.mul(&gy, &x);
        let gs = p.em.choose(&positive, &zero, &product);
        p.gx(1, gs);
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let one = |name, slope: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let (x, s) = (b.activation(&[3, 2, 4]), b.param_in(slope, 0.0, 0.5));
        let y = b.node("PRelu", &[x, s], vec![], &[1, 3, 2, 4]);
        b.case(name, y)
    };
    let mut merged = GraphBuilder::new(17);
    let (x, s) = (merged.activation(&[2, 3]), merged.param(&[3]));
    let axis = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
    let rows = merged.node_at("Reshape", &[x], vec![], &[2, 3], axis);
    let bent = merged.node_at("PRelu", &[rows, s], vec![], &[2, 3], axis);
    let y = merged.node("Reshape", &[bent], vec![], &[1, 2, 3]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w, s) = (parameter.activation(&[2, 3]), parameter.param(&[2, 3]), parameter.param(&[1]));
    let bent = parameter.node("PRelu", &[w, s], vec![], &[2, 3]);
    let z = parameter.node("Mul", &[x, bent], vec![], &[1, 2, 3]);
    vec![
        one("a slope for all", &[1]),
        one("a slope a channel", &[3, 1, 1]),
        merged.case("with the batch merged with positions", y),
        parameter.case("of a parameter", z),
    ]
}
