//! `Cos`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Cos", -4.0, 4.0)
}
