//! `Sqrt`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Sqrt", 0.5, 2.0)
}
