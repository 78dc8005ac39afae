//! `Mish`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases_with(18, "Mish", vec![], -3.0, 3.0);
    cases.push(GraphBuilder::far_out(18, "Mish", vec![]));
    cases
}
