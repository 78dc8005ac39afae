//! `Slice`, `Gather`, `Concat` of data: within samples only.

use super::super::batch::show;
use super::super::node::{Item, Outcome, Ruled, Shaped, Site};
use crate::onnx::attr_int;

/// `Slice` with constant bounds.
pub(in super::super) fn slice(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let rank = x.shape.len();
    let missing = || site.invalid("starts and ends are expected");
    let starts = site.constants(1)?.ok_or_else(missing)?;
    let ends = site.constants(2)?.ok_or_else(missing)?;
    let axes = site.constants(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = site.constants(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(site.invalid("starts, ends, axes and steps differ in length"));
    }
    let mut shape = x.shape.clone();
    for (i, &axis) in axes.iter().enumerate() {
        let axis = site.axis(axis, rank)?;
        let whole = starts[i] == 0 && steps[i] == 1 && ends[i] == i64::MAX;
        if x.batch.is_some_and(|at| at.axis == axis) {
            if whole {
                continue;
            }
            return Err(site.mixes(
                format!("it selects samples along the batch axis {axis}"),
                "slice within each sample, and let damper choose the samples",
            ));
        }
        let (length, step) = (shape[axis] as i64, steps[i]);
        let clamp = |at: i64, low: i64, high: i64| if at < 0 { at.saturating_add(length) } else { at }.clamp(low, high);
        let span = match step {
            0 => return Err(site.invalid("the step of a slice is 0")),
            1.. => clamp(ends[i], 0, length) - clamp(starts[i], 0, length),
            _ => clamp(starts[i], -1, length - 1) - clamp(ends[i], -1, length - 1),
        };
        let count = (span.max(0) as u64).div_ceil(step.unsigned_abs());
        if count == 0 {
            return Err(site.invalid(format!("nothing is left along axis {axis}")));
        }
        shape[axis] = count as usize;
    }
    let output = Shaped { dtype: x.dtype, shape, batch: x.batch };
    if output == Shaped::of(x) && steps.iter().all(|&step| step > 0) {
        return Ok(Outcome::Alias(Item::Value(site.id(0)?)));
    }
    Ok(Outcome::Node(vec![output]))
}

/// `Gather` with indices that are constants or data.
pub(in super::super) fn gather(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it picks samples along the batch axis {axis}"),
            "gather within each sample, and let damper choose the samples",
        ));
    }
    let (indices, indices_batch) = match site.inputs.get(1) {
        Some(Some(Item::Ints(ints))) => (ints.shape.clone(), None),
        _ => {
            let value = site.value(1)?;
            (value.shape.clone(), value.batch)
        }
    };
    if indices_batch.is_some() && x.batch.is_some() {
        return Err(site.mixes(
            "every sample's indices look up every sample's data",
            "gather from data that is the same for all samples",
        ));
    }
    let mut shape = x.shape[..axis].to_vec();
    shape.extend(&indices);
    shape.extend(&x.shape[axis + 1..]);
    let own = x.batch.map(|at| if at.axis < axis { at } else { at.at(at.axis + indices.len() - 1) });
    let batch = own.or(indices_batch.map(|at| at.at(axis + at.axis)));
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch }]))
}

/// `Concat`.
pub(in super::super) fn concat(site: &Site<'_>) -> Ruled {
    let values = (0..site.inputs.len()).map(|i| site.value(i)).collect::<Result<Vec<_>, _>>()?;
    let first = *values.first().ok_or_else(|| site.invalid("input 0 is missing"))?;
    let rank = first.shape.len();
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    if values.iter().any(|value| value.batch.is_some_and(|at| at.axis == axis)) {
        return Err(site.mixes(
            format!("it joins batches along axis {axis}, which holds the samples"),
            "concatenate features, as torch.cat(xs, dim=1)",
        ));
    }
    if let Some(value) = values.iter().find(|value| value.batch != first.batch) {
        return Err(site.mixes(
            format!(
                "'{}' {} and '{}' {} hold their samples differently",
                first.name,
                show(&first.shape, first.batch),
                value.name,
                show(&value.shape, value.batch)
            ),
            format!("expand what is the same for all samples along the batch first, and {}", site.export_remedy()),
        ));
    }
    let mut shape = first.shape.clone();
    let mut total = 0usize;
    for value in &values {
        let fits = value.shape.len() == rank && (0..rank).all(|i| i == axis || value.shape[i] == first.shape[i]);
        if !fits || value.dtype != first.dtype {
            return Err(site.invalid(format!("'{}' {:?} does not fit {:?}", value.name, value.shape, first.shape)));
        }
        total += value.shape[axis];
    }
    shape[axis] = total;
    Ok(Outcome::Node(vec![Shaped { dtype: first.dtype, shape, batch: first.batch }]))
}
