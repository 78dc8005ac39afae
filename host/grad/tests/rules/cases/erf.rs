//! `Erf`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Erf", -2.0, 2.0);
    cases.push(GraphBuilder::far_out(17, "Erf", vec![]));
    cases
}
