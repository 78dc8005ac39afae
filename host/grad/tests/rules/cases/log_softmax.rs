//! `LogSoftmax`.

use super::prelude::*;
use super::softmax::axis_cases;

pub fn cases() -> Vec<Case> {
    axis_cases("LogSoftmax")
}
