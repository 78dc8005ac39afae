//! `Identity`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Identity", -1.0, 1.0)
}
