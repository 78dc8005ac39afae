//! `Tan`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Tan", -1.2, 1.2)
}
