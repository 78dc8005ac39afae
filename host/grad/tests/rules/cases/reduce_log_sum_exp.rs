//! `ReduceLogSumExp`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, reduction_cases};

pub fn cases() -> Vec<Case> {
    let mut cases = reduction_cases("ReduceLogSumExp", attribute_form);
    let mut large = GraphBuilder::new(17);
    let x = large.activation_in(&[2, 3], 300.0, 303.0);
    let y = large.node("ReduceLogSumExp", &[x], vec![make_attr_ints("axes", &[-1])], &[1, 2, 1]);
    cases.push(large.case("of numbers whose exponential overflows", y));
    cases
}
