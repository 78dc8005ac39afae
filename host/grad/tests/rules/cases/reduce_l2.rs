//! `ReduceL2`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, input_form_cases, reduction_cases};

pub fn cases() -> Vec<Case> {
    let mut cases = reduction_cases("ReduceL2", attribute_form);
    cases.extend(input_form_cases("ReduceL2"));
    let zeroed = |b: &mut GraphBuilder| {
        let x = b.activation(&[2, 3]);
        let rows = b.floats(&[2, 1], &[0.0, 1.0]);
        b.node("Mul", &[x, rows], vec![], &[1, 2, 3])
    };
    let mut zero = GraphBuilder::new(17);
    let x = zeroed(&mut zero);
    let y = zero.node("ReduceL2", &[x], vec![make_attr_ints("axes", &[2])], &[1, 2, 1]);
    cases.push(zero.case("of a row of zeros", y));
    // As torch.nn.functional.normalize is exported.
    let mut unit = GraphBuilder::new(17);
    let x = zeroed(&mut unit);
    let norm = unit.node("ReduceL2", &[x], vec![make_attr_ints("axes", &[-1])], &[1, 2, 1]);
    let least = unit.floats(&[], &[1e-12]);
    let norm = unit.node("Clip", &[norm, least], vec![], &[1, 2, 1]);
    let wide = unit.node("Expand", &[norm], vec![], &[1, 2, 3]);
    let z = unit.node("Div", &[x, wide], vec![], &[1, 2, 3]);
    cases.push(unit.case("a row of zeros, normalised", z));
    cases
}
