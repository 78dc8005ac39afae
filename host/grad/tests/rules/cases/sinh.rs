//! `Sinh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Sinh", -2.0, 2.0)
}
