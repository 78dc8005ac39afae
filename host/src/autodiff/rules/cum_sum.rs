//! `CumSum` along an axis of `T`: `Y = U·X` with `U[t, s]` = 1 where position `s` counts for `t`, else 0 ⇒ `dX = Uᵀ·dY`.
//!
//! Both are products within a sample: the order of their sums is the same for every sample.

use super::Rule;
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::lookup::along;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::graph::{BatchAxis, DType, Tensor, TensorData};
use crate::onnx::{data_type, make_attr_int, make_attr_ints};

pub const RULE: Rule = Rule { op: "CumSum", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let Some(&[axis]) = p.constant_ints(1).as_deref() else {
        return Err(p.refuse("its axis is not a constant", "use a constant axis"));
    };
    let (gy, exclusive, reverse) = (p.gy(), p.int("exclusive", 0) != 0, p.int("reverse", 0) != 0);
    // What counts for a position backwards is what it counts for.
    let gx = sums(p.em, &gy, axis as usize + p.shift(), exclusive, !reverse);
    p.gx(0, gx);
    Ok(())
}

/// Running sums of floats along `axis`.
pub fn sums(em: &mut Emitter, x: &Var, axis: usize, exclusive: bool, reverse: bool) -> Var {
    let length = x.shape[axis];
    let counts = |to: usize, from: usize| {
        let (early, late) = if reverse { (to, from) } else { (from, to) };
        early < late || (early == late && !exclusive)
    };
    let ones = (0..length * length).map(|at| f64::from(u8::from(counts(at / length, at % length))));
    let ones = em.floats(x.dtype, &[length, length], ones.collect::<Vec<_>>());
    along(em, &ones, x, axis)
}

/// Running sums of integers along `axis`, exact: every position adds what is 1, 2, 4, … before it. (tract takes a `CumSum`
/// of integers for a shape, and refuses it.)
pub fn counts(em: &mut Emitter, x: &Var, axis: usize, exclusive: bool, reverse: bool) -> Var {
    let length = x.shape[axis];
    let mut sums = if exclusive { moved(em, x, axis, 1, reverse) } else { x.clone() };
    let mut reach = 1;
    while reach < length {
        let before = moved(em, &sums, axis, reach, reverse);
        sums = em.add(&sums, &before);
        reach *= 2;
    }
    sums
}

/// Integers `by` positions later along `axis` (earlier with `reverse`), and zeros where there are none.
fn moved(em: &mut Emitter, x: &Var, axis: usize, by: usize, reverse: bool) -> Var {
    let length = x.shape[axis];
    let from = |to: usize| if reverse { (to + by < length).then_some(to + by) } else { to.checked_sub(by) };
    let indices: Vec<i64> = (0..length).map(|to| from(to).unwrap_or(to) as i64).collect();
    let there = (0..length).map(|to| i64::from(from(to).is_some())).collect();
    let shape = [&[length], &vec![1; x.rank() - 1 - axis][..]].concat();
    let there = em.constant(Tensor { shape, data: TensorData::I64(there) });
    let there = em.cast(&there, x.dtype);
    let taken = em.gather(x, &indices, axis);
    em.mul(&taken, &there)
}

fn cases() -> Vec<Case> {
    let one = |name, shape: &[usize], axis: i64, exclusive, reverse| {
        let mut b = GraphBuilder::new(14);
        let (x, axis) = (b.activation(shape), b.indices(&[], &[axis]));
        let attributes = vec![make_attr_int("exclusive", exclusive), make_attr_int("reverse", reverse)];
        let y = b.node("CumSum", &[x, axis], attributes, &[&[1], shape].concat());
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w, axis) = (parameter.activation(&[4]), parameter.param(&[4]), parameter.indices(&[], &[0]));
    let sums = parameter.node("CumSum", &[w, axis], vec![], &[4]);
    let y = parameter.node("Mul", &[x, sums], vec![], &[1, 4]);

    let mut second = GraphBuilder::new(17);
    let (x, axis) = (second.activation(&[4, 2]), second.indices(&[], &[0]));
    let (perm, place) = (|| vec![make_attr_ints("perm", &[1, 0, 2])], BatchAxis { axis: 1, ..BATCH_FIRST });
    let turned = second.node_at("Transpose", &[x], perm(), &[4, 1, 2], Some(place));
    let sums = second.node_at("CumSum", &[turned, axis], vec![], &[4, 1, 2], Some(place));
    let back = second.node_at("Transpose", &[sums], perm(), &[1, 4, 2], Some(BATCH_FIRST));

    let mut whole = GraphBuilder::new(17);
    let (x, ids, axis) = (whole.activation(&[6]), whole.ids(&[6]), whole.indices(&[], &[1]));
    let mut product = x;
    for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let attributes = vec![make_attr_int("exclusive", exclusive), make_attr_int("reverse", reverse)];
        let sums = whole.node_of(DType::I64, "CumSum", &[ids, axis], attributes, &[1, 6]);
        let to = vec![make_attr_int("to", data_type(DType::F32) as i64)];
        let sums = whole.node("Cast", &[sums], to, &[1, 6]);
        product = whole.node(if reverse == 0 { "Mul" } else { "Add" }, &[product, sums], vec![], &[1, 6]);
    }
    vec![
        whole.case("of integers", product),
        one("along positions", &[5, 2], 1, 0, 0),
        one("without a position itself", &[2, 5], 2, 1, 0),
        one("from the end", &[5, 2], 1, 0, 1),
        one("from the end, without a position itself", &[5], 1, 1, 1),
        parameter.case("of a parameter", y),
        second.case("with the batch on the axis behind", back),
    ]
}
