//! `ReduceSum` and the other reductions, over any axis except that of the samples.

use super::super::DType;
use super::super::node::{Item, Outcome, Ruled, Shaped, Site};
use crate::attr_int;

/// Reduces over axes. They are an attribute up to opset 12 (`ReduceSum`) or 17 (the others), and an input in later
/// opsets. The rule keeps the form of the model. Integers have sums, products and extrema, but no norms and logarithms
/// here.
pub(in super::super) fn reduce(site: &Site<'_>) -> Ruled {
    let counts = matches!(site.op(), "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum");
    let x = if counts { site.value(0)? } else { site.float(0)? };
    if x.dtype == DType::Bool {
        return Err(site.refused(format!("it reduces the truth values of '{}'", x.name), "cast them to int64 first"));
    }
    let rank = x.shape.len();
    let attribute = site.attr_ints("axes")?;
    // Runtimes differ on an attribute that the operator does not have.
    if attribute.is_some() && (site.op() == "ReduceSum" || site.opset >= 18 || site.has(1)) {
        return Err(site.invalid("its axes are an attribute, which they are no more in this operator set"));
    }
    let given = site.constants(1)?.or(attribute);
    let given = given.filter(|axes| !axes.is_empty());
    if given.is_none() && attr_int(site.attributes(), "noop_with_empty_axes", 0) != 0 {
        // Runtimes differ on a norm or logarithm that reduces no axis.
        if !counts && !matches!(site.op(), "ReduceMean" | "ReduceLogSumExp") {
            return Err(site.refused("it reduces no axis (noop_with_empty_axes)", "name its axes, or remove it"));
        }
        return Ok(Outcome::Alias(Item::Value(site.id(0)?)));
    }
    let all = given.is_none();
    let axes: Vec<usize> = match given {
        Some(axes) => axes.into_iter().map(|axis| site.axis(axis, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    if let Some(at) = x.batch.filter(|at| axes.contains(&at.axis)) {
        let over =
            if all { "over all axes, the batch too".to_string() } else { format!("over the batch axis {}", at.axis) };
        return Err(site.mixes(
            format!("it reduces {over}"),
            "reduce within each sample only, as x.mean(dim=1); the loss is averaged by damper",
        ));
    }
    let keep = attr_int(site.attributes(), "keepdims", 1) != 0;
    let mut shape = Vec::with_capacity(rank);
    let mut batch = x.batch;
    for (axis, &d) in x.shape.iter().enumerate() {
        if let Some(at) = x.batch.filter(|at| at.axis == axis) {
            batch = Some(at.at(shape.len()));
        }
        match (axes.contains(&axis), keep) {
            (true, true) => shape.push(1),
            (true, false) => {}
            (false, _) => shape.push(d),
        }
    }
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch }]))
}
