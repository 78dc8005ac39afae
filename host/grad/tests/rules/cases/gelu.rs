//! `Gelu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let tanh = || vec![make_attr_string("approximate", "tanh")];
    let mut cases = GraphBuilder::unary_cases_with(20, "Gelu", vec![], -3.0, 3.0);
    cases.push(GraphBuilder::far_out(20, "Gelu", vec![]));
    for mut case in GraphBuilder::unary_cases_with(20, "Gelu", tanh(), -3.0, 3.0) {
        case.name += ", by tanh";
        cases.push(case);
    }
    cases.push(GraphBuilder::far_out(20, "Gelu", tanh()));
    cases
}
