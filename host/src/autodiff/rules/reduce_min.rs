//! `ReduceMin`: `Y` = smallest of `X` over axes ⇒ `dX = dY / k` at each of the `k` smallest elements, else 0.

use super::Rule;
use super::reduce_max::{extreme_cases, pull};
use crate::autodiff::testing::Case;

pub const RULE: Rule = Rule { op: "ReduceMin", pull, cases };

fn cases() -> Vec<Case> {
    extreme_cases("ReduceMin")
}
