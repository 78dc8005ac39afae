//! `Acosh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Acosh", 1.1, 3.0)
}
