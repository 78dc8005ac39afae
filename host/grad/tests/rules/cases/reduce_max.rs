//! `ReduceMax`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, input_form_cases, reduction_cases};

pub fn cases() -> Vec<Case> {
    extreme_cases("ReduceMax")
}

/// Cases shared with `ReduceMin`.
pub fn extreme_cases(op: &str) -> Vec<Case> {
    let mut cases = reduction_cases(op, attribute_form);
    let mut tied = GraphBuilder::new(17);
    let x = tied.activation(&[1, 3]);
    let repeated = tied.node("Expand", &[x], vec![], &[1, 4, 3]);
    let y = tied.node(op, &[repeated], vec![make_attr_ints("axes", &[1])], &[1, 1, 3]);
    cases.push(tied.case("of equal elements", y));
    cases.extend(input_form_cases(op));
    cases
}
