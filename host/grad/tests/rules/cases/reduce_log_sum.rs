//! `ReduceLogSum`.

use super::prelude::*;
use super::reduce_sum::{attribute_form, positive_reduction_cases};

pub fn cases() -> Vec<Case> {
    positive_reduction_cases("ReduceLogSum", attribute_form)
}
