//! `Sigmoid`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Sigmoid", -3.0, 3.0)
}
