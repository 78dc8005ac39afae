//! `Celu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Celu", -2.0, 2.0);
    cases.push(GraphBuilder::far_out(17, "Celu", vec![make_attr_float("alpha", 0.5)]));
    cases
}
