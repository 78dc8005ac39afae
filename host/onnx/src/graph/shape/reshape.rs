//! `Reshape`, `Flatten`, `Squeeze`, `Unsqueeze`: another shape with the same flat order.
//!
//! The flat order determines which axis of the target contains the samples ([`place`]). A batch size that the export
//! fixed is made symbolic if an entry of the target is proven to be the batch. The proof: at that size the target has
//! the right number of elements, and the sample digit of the input is in that entry. For a batch size above one, at
//! most one entry satisfies this. For a batch size of one, every entry that does describes the same memory and the same
//! function of one sample. The later rules hold for each choice. The axis of the input is preferred, then the first.

use super::super::batch::{place, show};
use super::super::node::{Item, MAX_EXTENT, MAX_RANK, Outcome, Ruled, Shaped, Site};
use super::super::{BatchAxis, GraphError};
use crate::{attr_int, attr_ints};

/// Entry of a reshape's target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Fixed(usize),
    /// A multiple of the number of samples.
    Samples(usize),
    /// `-1`.
    Rest,
}

type Layout = (Vec<usize>, Option<BatchAxis>);

/// `Reshape`.
pub(in super::super) fn reshape(site: &Site<'_>) -> Ruled {
    canonical(site, |site, shape, batch| {
        let entries = entries(site, shape, batch)?;
        match batch {
            None => Ok((plain(site, shape, &entries)?, None)),
            Some(batch) => batched(site, shape, batch, &entries),
        }
    })
}

/// `Flatten`.
pub(in super::super) fn flatten(site: &Site<'_>) -> Ruled {
    canonical(site, |site, shape, batch| {
        let (to, split) = (flat(site, shape)?, flat_axis(site, shape)?);
        let placed = batch.map(|b| {
            let axis = usize::from(b.axis >= split);
            place(b.sides(shape), &to, axis).ok_or_else(|| scattered(site, shape, b, "merges"))
        });
        Ok((to, placed.transpose()?))
    })
}

/// `Squeeze`.
pub(in super::super) fn squeeze(site: &Site<'_>) -> Ruled {
    canonical(site, |site, shape, batch| {
        let gone = squeezed(site, shape, batch.map(|b| b.axis))?;
        if let Some(b) = batch.filter(|b| gone.contains(&b.axis)) {
            return Err(site.mixes(
                format!("it removes axis {}, which holds the samples", b.axis),
                format!("squeeze other axes only, and {}", site.export_remedy()),
            ));
        }
        let to = (0..shape.len()).filter(|axis| !gone.contains(axis)).map(|axis| shape[axis]).collect();
        Ok((to, batch.map(|b| b.at(b.axis - gone.iter().filter(|&&axis| axis < b.axis).count()))))
    })
}

/// `Unsqueeze`.
pub(in super::super) fn unsqueeze(site: &Site<'_>) -> Ruled {
    canonical(site, |site, shape, batch| {
        let added = unsqueezed(site, shape)?;
        let mut old = 0..shape.len();
        let mut moved = batch;
        let rank = shape.len() + added.len();
        let mut to = Vec::with_capacity(rank);
        for axis in 0..rank {
            match (!added.contains(&axis)).then(|| old.next()).flatten() {
                Some(from) => {
                    to.push(shape[from]);
                    if let Some(b) = batch.filter(|b| b.axis == from) {
                        moved = Some(b.at(axis));
                    }
                }
                None => to.push(1),
            }
        }
        Ok((to, moved))
    })
}

/// Shape that the node gives to data of shape `shape` without a batch, such as a constant.
pub(in super::super) fn plain_target(site: &Site<'_>, shape: &[usize]) -> Result<Vec<usize>, GraphError> {
    match site.op() {
        "Flatten" => flat(site, shape),
        "Squeeze" => {
            let gone = squeezed(site, shape, None)?;
            Ok((0..shape.len()).filter(|axis| !gone.contains(axis)).map(|axis| shape[axis]).collect())
        }
        "Unsqueeze" => {
            let added = unsqueezed(site, shape)?;
            let mut old = shape.iter();
            let rank = shape.len() + added.len();
            Ok((0..rank).map(|axis| if added.contains(&axis) { 1 } else { *old.next().unwrap_or(&1) }).collect())
        }
        _ => plain(site, shape, &entries(site, shape, None)?),
    }
}

fn canonical(
    site: &Site<'_>,
    layout: impl Fn(&Site<'_>, &[usize], Option<BatchAxis>) -> Result<Layout, GraphError>,
) -> Ruled {
    let input = site.id(0)?;
    let value = site.value(0)?;
    let (shape, batch) = layout(site, &value.shape, value.batch)?;
    let output = Shaped { dtype: value.dtype, shape, batch };
    if output == Shaped::of(value) {
        return Ok(Outcome::Alias(Item::Value(input)));
    }
    Ok(Outcome::Canonical { op: "Reshape", input, output })
}

fn scattered(site: &Site<'_>, shape: &[usize], batch: BatchAxis, verb: &str) -> GraphError {
    site.mixes(
        format!("it {verb} {} so that a sample's elements leave their place", show(shape, Some(batch))),
        "keep the batch apart: reshape with an explicit batch entry, as x.reshape(x.shape[0], ...)",
    )
}

/// Target of a `Reshape`, with each 0 replaced by the copied extent.
fn entries(site: &Site<'_>, shape: &[usize], batch: Option<BatchAxis>) -> Result<Vec<Entry>, GraphError> {
    let target = site.ints(1)?;
    if target.entries.len() > MAX_RANK {
        return Err(site.invalid("the target has too many axes"));
    }
    let zero_copies = attr_int(site.attributes(), "allowzero", 0) == 0;
    let mut entries = Vec::with_capacity(target.entries.len());
    for (axis, entry) in target.entries.iter().enumerate() {
        entries.push(match (entry.per_sample, entry.fixed) {
            (0, -1) => Entry::Rest,
            (0, 0) if zero_copies => match (shape.get(axis), batch) {
                (Some(_), Some(b)) if b.axis == axis => Entry::Samples(b.extent()),
                (Some(&d), _) => Entry::Fixed(d),
                (None, _) => return Err(site.invalid(format!("entry {axis} of the target copies an absent axis"))),
            },
            (0, d) if (0..=MAX_EXTENT).contains(&d) => Entry::Fixed(d as usize),
            (a, 0) if (1..=MAX_EXTENT).contains(&a) => Entry::Samples(a as usize),
            (0, d) => return Err(site.invalid(format!("entry {axis} of the target is {d}"))),
            _ => {
                return Err(site.mixes(
                    format!("entry {axis} of the target is {entry}, no multiple of the number N of samples"),
                    "reshape every sample alike",
                ));
            }
        });
    }
    if entries.iter().filter(|&&entry| entry == Entry::Rest).count() > 1 {
        return Err(site.invalid("the target has two entries of -1"));
    }
    Ok(entries)
}

fn product(site: &Site<'_>, mut dims: impl Iterator<Item = usize>) -> Result<usize, GraphError> {
    dims.try_fold(1usize, usize::checked_mul).ok_or_else(|| site.invalid("the target is too large"))
}

/// `dims` with `None` replaced by the remaining factor of `total` elements.
fn complete(site: &Site<'_>, total: usize, dims: &[Option<usize>]) -> Result<Vec<usize>, GraphError> {
    let known = product(site, dims.iter().flatten().copied())?;
    let rest = total.checked_div(known).unwrap_or(0);
    let whole: Vec<usize> = dims.iter().map(|d| d.unwrap_or(rest)).collect();
    if product(site, whole.iter().copied())? != total {
        return Err(site.invalid(format!("{total} elements do not fill the target {}", show_target(dims))));
    }
    Ok(whole)
}

fn show_target(dims: &[Option<usize>]) -> String {
    let dims: Vec<String> = dims.iter().map(|d| d.map_or("-1".to_string(), |d| d.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

fn plain(site: &Site<'_>, shape: &[usize], entries: &[Entry]) -> Result<Vec<usize>, GraphError> {
    let dims = entries
        .iter()
        .map(|entry| match entry {
            Entry::Fixed(d) => Ok(Some(*d)),
            Entry::Rest => Ok(None),
            Entry::Samples(_) => Err(site.mixes(
                "it gives data that has no samples a shape that depends on their number",
                "expand it along a new axis, as x.expand(batch, -1)",
            )),
        })
        .collect::<Result<Vec<_>, _>>()?;
    complete(site, product(site, shape.iter().copied())?, &dims)
}

fn batched(site: &Site<'_>, shape: &[usize], batch: BatchAxis, entries: &[Entry]) -> Result<Layout, GraphError> {
    let sides = batch.sides(shape);
    let total = product(site, shape.iter().copied())?;
    let one_sample: Vec<Option<usize>> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Fixed(d) | Entry::Samples(d) => Some(*d),
            Entry::Rest => None,
        })
        .collect();
    let symbolic: Vec<usize> = (0..entries.len()).filter(|&axis| matches!(entries[axis], Entry::Samples(_))).collect();
    let rest = entries.iter().position(|entry| *entry == Entry::Rest);
    let found = match (symbolic.as_slice(), site.fixed_batch) {
        ([_, _, ..], _) => {
            return Err(site.mixes("two entries of the target are the batch", "keep one batch axis"));
        }
        ([axis], _) => {
            let to = complete(site, total, &one_sample)?;
            place(sides, &to, *axis).map(|b| (to, Some(b)))
        }
        ([], None) => {
            let Some(axis) = rest else {
                return Err(site.mixes(
                    format!(
                        "the target {} of {} has no entry for the batch",
                        show_target(&one_sample),
                        show(shape, Some(batch))
                    ),
                    format!("do not turn the batch size into a Python number, and {}", site.export_remedy()),
                ));
            };
            complete(site, total, &one_sample).ok().and_then(|to| place(sides, &to, axis).map(|b| (to, Some(b))))
        }
        ([], Some(size)) => rebind(site, sides, total, batch.axis, size, &one_sample)?,
    };
    found.ok_or_else(|| {
        if symbolic.is_empty() && site.fixed_batch.is_some() {
            return site.mixes(
                format!(
                    "no entry of the target {} of {} is proven to be the batch",
                    show_target(&one_sample),
                    show(shape, Some(batch))
                ),
                site.export_remedy(),
            );
        }
        scattered(site, shape, batch, "reshapes")
    })
}

/// Layout of a target that was written for a batch size of `size`.
fn rebind(
    site: &Site<'_>,
    sides: (usize, usize),
    total: usize,
    from: usize,
    size: usize,
    dims: &[Option<usize>],
) -> Result<Option<Layout>, GraphError> {
    let exported = complete(site, product(site, [total, size].into_iter())?, dims)?;
    let at = |axis: usize| {
        let mut to = exported.clone();
        to[axis] = to[axis].checked_div(size).filter(|d| d * size == to[axis])?;
        place(sides, &to, axis).map(|b| (to, Some(b)))
    };
    let found: Vec<(usize, Layout)> = (0..dims.len()).filter_map(|axis| Some((axis, at(axis)?))).collect();
    let is_plain = |layout: &Layout| layout.1.is_some_and(|b| b.extent() == 1);
    let last = dims.len() - 1;
    let order = |(axis, layout): &(usize, Layout)| (!is_plain(layout), *axis == last, *axis != from, *axis);
    Ok(found.into_iter().min_by_key(order).map(|(_, layout)| layout))
}

fn flat_axis(site: &Site<'_>, shape: &[usize]) -> Result<usize, GraphError> {
    let axis = attr_int(site.attributes(), "axis", 1);
    if axis == shape.len() as i64 { Ok(shape.len()) } else { site.axis(axis, shape.len()) }
}

fn flat(site: &Site<'_>, shape: &[usize]) -> Result<Vec<usize>, GraphError> {
    let axis = flat_axis(site, shape)?;
    Ok(vec![product(site, shape[..axis].iter().copied())?, product(site, shape[axis..].iter().copied())?])
}

fn axes(site: &Site<'_>) -> Result<Option<Vec<i64>>, GraphError> {
    match site.constants(1)? {
        Some(axes) => Ok(Some(axes)),
        None => Ok(attr_ints(site.attributes(), "axes").map(<[i64]>::to_vec)),
    }
}

fn squeezed(site: &Site<'_>, shape: &[usize], batch: Option<usize>) -> Result<Vec<usize>, GraphError> {
    match axes(site)? {
        Some(axes) => axes
            .into_iter()
            .map(|axis| {
                let axis = site.axis(axis, shape.len())?;
                if shape[axis] != 1 && batch != Some(axis) {
                    return Err(site.invalid(format!("axis {axis} has {} elements, not 1", shape[axis])));
                }
                Ok(axis)
            })
            .collect(),
        None => Ok((0..shape.len()).filter(|&axis| shape[axis] == 1 && batch != Some(axis)).collect()),
    }
}

fn unsqueezed(site: &Site<'_>, shape: &[usize]) -> Result<Vec<usize>, GraphError> {
    let axes = axes(site)?.ok_or_else(|| site.invalid("axes are expected"))?;
    let rank = shape.len() + axes.len();
    if rank > MAX_RANK {
        return Err(site.invalid("the result has too many axes"));
    }
    let mut added = axes.into_iter().map(|axis| site.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    added.sort_unstable();
    if added.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(site.invalid("an axis is added twice"));
    }
    Ok(added)
}
