//! `GlobalMaxPool`: `Y: [N, C, 1, …]` = largest of the positions of `X: [N, C, *s]` ⇒ `dX` there = `dY`, 0 elsewhere; of equal
//! elements the first in row-major order takes it all, as in `MaxPool`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::DType;
use crate::onnx::make_attr_int;

pub const RULE: Rule = Rule { op: "GlobalMaxPool", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x_rows(0), p.gy_rows());
    let (rows, channels, positions) = (x.shape[0], x.shape[1], x.shape[2..].iter().product());
    let flat = p.em.reshape(&x, &[rows, channels, positions], x.batch);
    let gy = p.em.reshape(&gy, &[rows, channels, 1], gy.batch);
    let axis = vec![make_attr_int("axis", 2), make_attr_int("keepdims", 1)];
    let largest = p.em.node("ArgMax", &[&flat], axis, DType::I64, gy.shape.clone(), gy.batch);
    let places = p.em.ints(&(0..positions as i64).collect::<Vec<_>>());
    let is_largest = p.em.compare("Equal", &largest, &places);
    let zero = p.em.scalar(gy.dtype, 0.0);
    let gx = p.em.choose(&is_largest, &gy, &zero);
    let gx = p.em.reshape(&gx, &x.shape, x.batch);
    p.gx_rows(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut plane = GraphBuilder::new(17);
    let x = plane.activation(&[3, 4, 5]);
    let y = plane.node("GlobalMaxPool", &[x], vec![], &[1, 3, 1, 1]);
    let mut line = GraphBuilder::new(17);
    let x = line.activation(&[3, 4]);
    let z = line.node("GlobalMaxPool", &[x], vec![], &[1, 3, 1]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.input(&[2]), parameter.param(&[1, 2, 3, 3]));
    let pooled = parameter.node("GlobalMaxPool", &[w], vec![], &[1, 2, 1, 1]);
    let pooled = parameter.node("Reshape", &[pooled], vec![], &[1, 2]);
    let u = parameter.node("Mul", &[x, pooled], vec![], &[1, 2]);
    vec![plane.case("2-D", y), line.case("1-D", z), parameter.case("of a parameter", u)]
}
