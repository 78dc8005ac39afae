//! `Abs`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Abs", -1.0, 1.0)
}
