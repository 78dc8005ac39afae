//! `Mean`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases("Mean", -1.0, 1.0);
    cases.push(super::sum::of_three("Mean"));
    cases
}
