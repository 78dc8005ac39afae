//! `Min` of any number of inputs: `dX_i = dY / k` if `X_i = Y`, else 0, with `k` the number of inputs equal to `Y`
//! there.

use super::max::backward;
use super::rule::GradRule;

pub const RULE: GradRule = GradRule { op: "Min", backward };
