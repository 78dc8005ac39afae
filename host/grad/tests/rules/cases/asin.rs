//! `Asin`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Asin", -0.9, 0.9)
}
