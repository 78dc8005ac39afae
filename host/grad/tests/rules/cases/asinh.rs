//! `Asinh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Asinh", -2.0, 2.0)
}
