//! `Atanh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Atanh", -0.9, 0.9)
}
