//! `Tanh`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Tanh", -2.0, 2.0)
}
