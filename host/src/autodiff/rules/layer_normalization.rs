//! `LayerNormalization`: `Y = γ · x̂ + β`, `x̂` normalised over the axes from `axis` on ⇒ `dx̂ = γ · dY`, `dX` by `normalize`,
//! `dγ = dY · x̂`, `dβ = dY`, summed over what they were broadcast to.

use super::Rule;
use crate::autodiff::normalize::Normalized;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::graph::BatchAxis;
use crate::onnx::{make_attr_float, make_attr_int};

pub const RULE: Rule = Rule { op: "LayerNormalization", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gamma, gy) = (p.x(0), p.x(1), p.gy());
    if p.wants(2) {
        p.gx(2, gy.clone());
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let axes = (p.int("axis", -1).rem_euclid(x.rank() as i64) as usize..x.rank()).collect();
    let mut normalized = Normalized::new(p.em, &x, axes, p.float("epsilon", 1e-5));
    if x.batch.is_none() {
        normalized = normalized.behind_samples(p.em);
    }
    if p.wants(1) {
        let gg = p.em.mul(&gy, &normalized.value);
        p.gx(1, gg);
    }
    if p.wants(0) {
        let inner = p.em.mul(&gy, &gamma);
        let gx = normalized.pull(p.em, &inner);
        p.gx(0, gx);
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let one = |name, axis, affine: &[usize], bias: bool| {
        let mut b = GraphBuilder::new(17);
        let (x, gamma) = (b.activation(&[2, 3, 4]), b.param(affine));
        let mut inputs = vec![x, gamma];
        if bias {
            inputs.push(b.param(affine));
        }
        let y = b.node("LayerNormalization", &inputs, vec![make_attr_int("axis", axis)], &[1, 2, 3, 4]);
        b.case(name, y)
    };
    let mut merged = GraphBuilder::new(17);
    let (x, gamma, beta) = (merged.activation(&[3, 4]), merged.param(&[4]), merged.param(&[4]));
    let axis = BatchAxis { axis: 0, outer: 1, inner: 3 };
    let rows = merged.node_at("Reshape", &[x], vec![], &[3, 4], Some(axis));
    let epsilon = vec![make_attr_float("epsilon", 0.1)];
    let normal = merged.node_at("LayerNormalization", &[rows, gamma, beta], epsilon, &[3, 4], Some(axis));
    let y = merged.node_at("Reshape", &[normal], vec![], &[1, 3, 4], Some(BATCH_FIRST));
    let mut parameter = GraphBuilder::new(17);
    let (x, w, gamma) = (parameter.activation(&[3, 4]), parameter.param(&[3, 4]), parameter.param(&[4]));
    let normal = parameter.node("LayerNormalization", &[w, gamma], vec![], &[3, 4]);
    let z = parameter.node("Mul", &[x, normal], vec![], &[1, 3, 4]);
    vec![
        one("the last axis", -1, &[4], true),
        one("without a bias", -1, &[4], false),
        one("two axes", 2, &[3, 4], true),
        one("two axes, a scale for the last", -2, &[4], true),
        merged.case("with the batch merged with positions, a large epsilon", y),
        parameter.case("of a parameter", z),
    ]
}
