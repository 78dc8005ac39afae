//! `Softplus`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Softplus", -4.0, 4.0);
    cases.push(GraphBuilder::far_out(17, "Softplus", vec![]));
    cases
}
