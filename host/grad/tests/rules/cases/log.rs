//! `Log`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Log", 0.5, 2.0)
}
