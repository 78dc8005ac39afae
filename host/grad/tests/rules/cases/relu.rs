//! `Relu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Relu", -1.0, 1.0)
}
