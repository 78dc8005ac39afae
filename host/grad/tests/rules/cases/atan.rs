//! `Atan`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Atan", -2.0, 2.0)
}
