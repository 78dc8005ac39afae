//! `Min` of any number of inputs: `dX_i = dY / k` where `X_i = Y`, else 0, `k` being how many inputs are equal to `Y` there.

use super::max::backward;
use super::rule::GradRule;

pub const RULE: GradRule = GradRule { op: "Min", backward };
