//! `Sub`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    GraphBuilder::binary_cases("Sub", -1.0, 1.0)
}
