//! `Add`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::binary_cases("Add", -1.0, 1.0)
}
