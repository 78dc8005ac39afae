//! `LeakyRelu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("LeakyRelu", -1.0, 1.0)
}
