//! `ReduceMin`.

use super::prelude::*;
use super::reduce_max::extreme_cases;

pub fn cases() -> Vec<Case> {
    extreme_cases("ReduceMin")
}
