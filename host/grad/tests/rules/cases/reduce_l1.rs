//! `ReduceL1`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, reduction_cases};

pub fn cases() -> Vec<Case> {
    reduction_cases("ReduceL1", attribute_form)
}
