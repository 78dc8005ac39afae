//! `Sin`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Sin", -4.0, 4.0)
}
