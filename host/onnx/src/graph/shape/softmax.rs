//! `Softmax` and `LogSoftmax` (operator set 13 and later: one axis).

use super::super::node::{Outcome, Ruled, Shaped, Site};
use crate::attr_int;

/// Normalises along one axis, which must not hold the samples.
pub(in super::super) fn softmax(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", -1), x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it normalises along axis {axis}, which holds the samples"),
            "apply it to the class axis, as torch.softmax(x, dim=1)",
        ));
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}
