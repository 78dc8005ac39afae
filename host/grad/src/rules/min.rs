//! `Min` of any number of inputs: `dX_i = dY / k` where `X_i = Y`, else 0, `k` being how many inputs are equal to `Y` there.

use super::max::backward;
use super::rule::Rule;

pub const RULE: Rule = Rule { op: "Min", backward };
