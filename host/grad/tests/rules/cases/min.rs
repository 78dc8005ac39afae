//! `Min`.

use super::max::extreme_cases;
use super::prelude::*;

pub fn cases() -> Vec<Case> {
    extreme_cases("Min")
}
