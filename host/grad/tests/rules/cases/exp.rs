//! `Exp`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Exp", -1.0, 1.0)
}
