//! `ReduceProd`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, reduction_cases};

pub fn cases() -> Vec<Case> {
    let mut cases = reduction_cases("ReduceProd", attribute_form);
    let mut zero = GraphBuilder::new(17);
    let x = zero.activation(&[3, 3]);
    let pattern = zero.floats(&[3, 3], &[1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    let x = zero.node("Mul", &[x, pattern], vec![], &[1, 3, 3]);
    let shift = zero.param_in(&[3, 3], 0.0, 0.0);
    let x = zero.node("Add", &[x, shift], vec![], &[1, 3, 3]);
    let y = zero.node("ReduceProd", &[x], vec![make_attr_ints("axes", &[-1])], &[1, 3, 1]);
    cases.push(zero.case("of none, one and two zeros", y));
    cases
}
