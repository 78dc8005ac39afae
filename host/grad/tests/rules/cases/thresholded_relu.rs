//! `ThresholdedRelu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("ThresholdedRelu", -2.0, 2.0);
    let alpha = vec![make_attr_float("alpha", -0.25)];
    cases.extend(GraphBuilder::unary_cases_with(13, "ThresholdedRelu", alpha, -2.0, 2.0));
    cases
}
