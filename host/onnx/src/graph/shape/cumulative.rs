//! `CumSum`: cumulative sums along an axis, within samples.

use super::super::node::{Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{GraphError, Tensor, TensorData};

/// Maximum length of float sums, which are products with a square matrix of this size.
const LONGEST: usize = 4096;

/// `CumSum` of floats or integers along a constant axis, given as a scalar.
pub(in super::super) fn cumulative(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let axis = axis(site, x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it sums along axis {axis}, which holds the samples"),
            "sum along positions, as torch.cumsum(x, dim=1)",
        ));
    }
    if x.shape[axis] > LONGEST {
        return Err(site.refused(format!("it sums along {} elements", x.shape[axis]), "sum along shorter axes"));
    }
    let along = Source::Constant(Tensor { shape: vec![], data: TensorData::I64(vec![axis as i64]) });
    let inputs = vec![Source::Value(site.id(0)?), along];
    let step = Step { op: "CumSum", inputs, attributes: site.attributes().to_vec(), output: Shaped::of(x) };
    Ok(Outcome::Steps { steps: vec![step], outputs: vec![0] })
}

/// Axis of the sum.
pub(in super::super) fn axis(site: &Site<'_>, rank: usize) -> Result<usize, GraphError> {
    match site.constants(1)?.as_deref() {
        Some(&[axis]) => site.axis(axis, rank),
        _ => Err(site.invalid("its axis is not one number")),
    }
}
