//! `Cosh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Cosh", -2.0, 2.0)
}
