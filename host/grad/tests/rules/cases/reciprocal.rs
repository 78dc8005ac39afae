//! `Reciprocal`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Reciprocal", 0.5, 2.0)
}
