//! `ReduceMin`: `Y` = smallest of `X` over axes ⇒ `dX = dY / k` at each of the `k` smallest elements, else 0.

use super::reduce_max::backward;
use super::rule::Rule;

pub const RULE: Rule = Rule { op: "ReduceMin", backward };
