//! `Softmax` along one axis: `dX = Y · (dY − Σ dY · Y)`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::onnx::make_attr_int;

pub const RULE: Rule = Rule { op: "Softmax", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let axis = p.int("axis", -1);
    let axis = if axis < 0 { axis + y.rank() as i64 } else { axis } as usize + p.shift();
    let product = p.em.mul(&gy, &y);
    let sum = p.em.reduce_sum(&product, &[axis], true);
    let centred = p.em.sub(&gy, &sum);
    let gx = p.em.mul(&y, &centred);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut rows = GraphBuilder::new(17);
    let x = rows.activation(&[5]);
    let y = rows.node("Softmax", &[x], vec![], &[1, 5]);
    let mut middle = GraphBuilder::new(17);
    let x = middle.activation(&[3, 4]);
    let z = middle.node("Softmax", &[x], vec![make_attr_int("axis", 1)], &[1, 3, 4]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[3, 4]), parameter.param(&[3, 4]));
    let mix = parameter.node("Softmax", &[w], vec![make_attr_int("axis", 0)], &[3, 4]);
    let u = parameter.node("Mul", &[x, mix], vec![], &[1, 3, 4]);
    vec![rows.case("last axis", y), middle.case("an inner axis", z), parameter.case("of a parameter", u)]
}
