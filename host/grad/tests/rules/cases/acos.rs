//! `Acos`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Acos", -0.9, 0.9)
}
