//! `Div`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::binary_cases("Div", 0.5, 1.5)
}
