//! `Softsign`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Softsign", -2.0, 2.0);
    cases.push(GraphBuilder::far_out(17, "Softsign", vec![]));
    cases
}
