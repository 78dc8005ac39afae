//! `HardSigmoid`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let sixth = vec![make_attr_float("alpha", 1.0 / 6.0)];
    let mut cases = GraphBuilder::unary_cases("HardSigmoid", -4.0, 4.0);
    cases.extend(GraphBuilder::unary_cases_with(14, "HardSigmoid", sixth, -4.0, 4.0));
    cases
}
