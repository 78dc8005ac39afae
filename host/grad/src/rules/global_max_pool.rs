//! `GlobalMaxPool`: `Y: [N, C, 1, …]` = maximum over the positions of `X: [N, C, *s]` ⇒ `dX` there = `dY`, 0 elsewhere.
//! Of equal elements, the first in row-major order takes the whole gradient, as in `MaxPool`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use damper_onnx::graph::DType;
use damper_onnx::make_attr_int;

pub const RULE: GradRule = GradRule { op: "GlobalMaxPool", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
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
