//! Selection, concatenation, permutation and repetition of known integers.

use super::super::affine::Affine;
use super::super::node::{Ints, MAX_FOLDED, Site};
use super::super::{DType, GraphError};
use super::broadcast::{broadcast_index, common, count, not_affine};
use crate::attr_int;

/// Output, if the operator is one of these.
pub(super) fn evaluate(site: &Site<'_>, inputs: &[&Ints]) -> Option<Result<Ints, GraphError>> {
    Some(match site.op() {
        "Concat" => concat(site, inputs),
        "CumSum" => cumulative(site, inputs),
        // Expanded to the number of samples, it is data.
        "Expand" if inputs.last()?.constants().is_some() => expand(site, inputs),
        "Gather" => gather(site, inputs),
        "NonZero" => non_zero(site, inputs),
        "Range" => range(site, inputs),
        "Slice" => slice(site, inputs),
        "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" => reshape(site, inputs),
        "Tile" if inputs.last()?.constants().is_some() => tile(site, inputs),
        "Transpose" => transpose(site, inputs),
        "Trilu" => triangle(site, inputs),
        _ => return None,
    })
}

/// Sizes around `axis`: (before, the axis, after).
fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

fn concat(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let rank = inputs[0].shape.len();
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    let fits =
        |ints: &&&Ints| ints.shape.len() == rank && (0..rank).all(|i| i == axis || ints.shape[i] == inputs[0].shape[i]);
    if inputs.iter().filter(fits).count() != inputs.len() {
        return Err(site.invalid("integer inputs do not concatenate"));
    }
    let mut shape = inputs[0].shape.clone();
    shape[axis] = inputs.iter().map(|ints| ints.shape[axis]).sum();
    count(site, &shape)?;
    let before: usize = shape[..axis].iter().product();
    let mut entries = Vec::new();
    for row in 0..before {
        for ints in inputs {
            let (_, extent, after) = around(&ints.shape, axis);
            entries.extend_from_slice(&ints.entries[row * extent * after..(row + 1) * extent * after]);
        }
    }
    Ok(Ints { dtype: inputs[0].dtype, shape, entries })
}

/// Parts of a `Split`.
pub(in super::super) fn split(site: &Site<'_>, data: &Ints) -> Result<Vec<Ints>, GraphError> {
    let (axis, sizes) = super::super::shape::slices::parts(site, &data.shape)?;
    let (before, whole, after) = around(&data.shape, axis);
    let mut start = 0;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut shape = data.shape.clone();
        shape[axis] = size;
        let row = |row: usize| &data.entries[(row * whole + start) * after..(row * whole + start + size) * after];
        parts.push(Ints { dtype: data.dtype, shape, entries: (0..before).flat_map(row).copied().collect() });
        start += size;
    }
    Ok(parts)
}

fn gather(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let [data, indices] = inputs else {
        return Err(site.invalid("two inputs are expected"));
    };
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), data.shape.len())?;
    let (before, extent, after) = around(&data.shape, axis);
    let chosen = indices
        .constants()
        .ok_or_else(|| not_affine(site))?
        .into_iter()
        .map(|index| site.axis(index, extent))
        .collect::<Result<Vec<_>, _>>()?;
    let mut shape = data.shape[..axis].to_vec();
    shape.extend(&indices.shape);
    shape.extend(&data.shape[axis + 1..]);
    count(site, &shape)?;
    let mut entries = Vec::new();
    for row in 0..before {
        for &index in &chosen {
            let at = (row * extent + index) * after;
            entries.extend_from_slice(&data.entries[at..at + after]);
        }
    }
    Ok(Ints { dtype: data.dtype, shape, entries })
}

fn slice(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let missing = || site.invalid("starts and ends are expected");
    let starts = site.constants(1)?.ok_or_else(missing)?;
    let ends = site.constants(2)?.ok_or_else(missing)?;
    let axes = site.constants(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = site.constants(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(site.invalid("starts, ends, axes and steps differ in length"));
    }
    let mut sliced = data.clone();
    for (i, &axis) in axes.iter().enumerate() {
        let axis = site.axis(axis, data.shape.len())?;
        let length = sliced.shape[axis] as i64;
        let (start, count) = super::super::shape::slices::span(site, (starts[i], ends[i], steps[i]), length)?;
        // Every index is within the axis, so a step that leaves the axis is never taken.
        let kept: Vec<usize> = (0..count as i64).map(|k| (start + k * steps[i]) as usize).collect();
        let (before, whole, after) = around(&sliced.shape, axis);
        let mut entries = Vec::with_capacity(before * count * after);
        for row in 0..before {
            for &index in &kept {
                let at = (row * whole + index) * after;
                entries.extend_from_slice(&sliced.entries[at..at + after]);
            }
        }
        sliced.shape[axis] = count;
        sliced.entries = entries;
    }
    Ok(sliced)
}

fn reshape(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let shape = super::super::shape::reshape::plain_target(site, &inputs[0].shape)?;
    Ok(Ints { dtype: inputs[0].dtype, shape, entries: inputs[0].entries.clone() })
}

fn expand(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let target = site.constants(1)?.ok_or_else(|| site.invalid("a target shape is expected"))?;
    let target: Vec<usize> =
        target.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| not_affine(site))?;
    let like = Ints { dtype: inputs[0].dtype, shape: target, entries: vec![] };
    let shape = common(site, &[inputs[0], &like])?;
    let entries = (0..count(site, &shape)?)
        .map(|flat| inputs[0].entries[broadcast_index(flat, &shape, &inputs[0].shape)])
        .collect();
    Ok(Ints { dtype: inputs[0].dtype, shape, entries })
}

fn range(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let single = |index: usize| {
        let one = site.constants(index)?.filter(|values| values.len() == 1);
        one.map(|values| values[0]).ok_or_else(|| site.invalid("a scalar is expected"))
    };
    let (start, limit, delta) = (single(0)?, single(1)?, single(2)?);
    if delta == 0 {
        return Err(site.invalid("the step of a range is 0"));
    }
    let span = i128::from(limit) - i128::from(start);
    let delta = i128::from(delta);
    // Number of complete or partial steps from start to limit.
    let length = if span.signum() == delta.signum() { span.abs().div_euclid(delta.abs()) } else { 0 };
    let begun = span.signum() == delta.signum() && span % delta != 0;
    let length = length + i128::from(begun);
    if length > MAX_FOLDED as i128 {
        return Err(site.invalid("an integer constant is too large"));
    }
    let entries: Vec<Affine> = (0..length).map(|i| Affine::fixed((i128::from(start) + i * delta) as i64)).collect();
    Ok(Ints { dtype: inputs[0].dtype, shape: vec![entries.len()], entries })
}

/// Digits of a flat index.
fn digits(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut digits = vec![0; shape.len()];
    for (digit, &d) in digits.iter_mut().zip(shape).rev() {
        *digit = flat % d;
        flat /= d;
    }
    digits
}

/// Flat index of digits.
fn flat(digits: impl IntoIterator<Item = usize>, shape: &[usize]) -> usize {
    digits.into_iter().zip(shape).fold(0, |flat, (digit, d)| flat * d + digit)
}

fn tile(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let repeats = site.constants(1)?.unwrap_or_default();
    let repeats: Option<Vec<usize>> = repeats.iter().map(|&r| usize::try_from(r).ok()).collect();
    let repeats = repeats.filter(|repeats| repeats.len() == data.shape.len());
    let repeats = repeats.ok_or_else(|| site.invalid("the repeats are not one for each axis"))?;
    let shape = data.shape.iter().zip(&repeats).map(|(&d, &r)| d.checked_mul(r)).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or_else(|| site.invalid("an integer constant is too large"))?;
    let from = |to: usize| flat(digits(to, &shape).iter().zip(&data.shape).map(|(digit, d)| digit % d), &data.shape);
    let entries = (0..count(site, &shape)?).map(|to| data.entries[from(to)]).collect();
    Ok(Ints { dtype: data.dtype, shape, entries })
}

fn transpose(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let perm = super::super::shape::transpose::permutation(site, data.shape.len())?;
    let shape: Vec<usize> = perm.iter().map(|&axis| data.shape[axis]).collect();
    let entry = |to: usize| {
        let mut from = vec![0; perm.len()];
        for (&axis, digit) in perm.iter().zip(digits(to, &shape)) {
            from[axis] = digit;
        }
        data.entries[flat(from, &data.shape)]
    };
    let entries = (0..data.entries.len()).map(entry).collect();
    Ok(Ints { dtype: data.dtype, shape, entries })
}

fn triangle(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let keeps = super::super::shape::triangle::kept(site, &data.shape)?;
    let rank = data.shape.len();
    let mut entries = data.entries.clone();
    for (at, entry) in entries.iter_mut().enumerate() {
        let place = digits(at, &data.shape);
        if !keeps(place[rank - 2], place[rank - 1]) {
            *entry = Affine::fixed(0);
        }
    }
    Ok(Ints { entries, ..data.clone() })
}

fn cumulative(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let axis = super::super::shape::cumulative::axis(site, data.shape.len())?;
    let flag = |name| attr_int(site.attributes(), name, 0) != 0;
    let (exclusive, reverse) = (flag("exclusive"), flag("reverse"));
    let (before, length, after) = around(&data.shape, axis);
    let mut entries = data.entries.clone();
    for (row, column) in (0..before).flat_map(|row| (0..after).map(move |column| (row, column))) {
        let mut sum = Affine::fixed(0);
        for step in 0..length {
            let place = if reverse { length - 1 - step } else { step };
            let at = (row * length + place) * after + column;
            let with = sum.add(data.entries[at]).ok_or_else(|| not_affine(site))?;
            entries[at] = if exclusive { sum } else { with };
            sum = with;
        }
    }
    Ok(Ints { entries, ..data.clone() })
}

/// Positions of non-zero entries, one per column.
fn non_zero(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let values = data.constants().ok_or_else(|| not_affine(site))?;
    let places = values.iter().enumerate().filter(|(_, value)| **value != 0);
    let places: Vec<Vec<usize>> = places.map(|(at, _)| digits(at, &data.shape)).collect();
    let rank = data.shape.len();
    let row = |axis: usize| places.iter().map(move |place| Affine::fixed(place[axis] as i64));
    Ok(Ints { dtype: DType::I64, shape: vec![rank, places.len()], entries: (0..rank).flat_map(row).collect() })
}
