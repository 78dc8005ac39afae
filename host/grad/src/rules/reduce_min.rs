//! `ReduceMin`: `Y` = minimum of `X` over axes ⇒ `dX = dY / k` at each of the `k` smallest elements, else 0.

use super::reduce_max::backward;
use super::rule::GradRule;

pub const RULE: GradRule = GradRule { op: "ReduceMin", backward };
