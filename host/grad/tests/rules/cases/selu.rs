//! `Selu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Selu", -2.0, 2.0);
    let attributes = vec![make_attr_float("alpha", 1.5), make_attr_float("gamma", 0.75)];
    cases.push(GraphBuilder::far_out(17, "Selu", attributes));
    cases
}
