//! `Expand`: broadcasts to a known target shape, which may include the batch.

use super::super::BatchAxis;
use super::super::batch::show;
use super::super::node::{Item, MAX_EXTENT, MAX_RANK, Outcome, Ruled, Shaped, Site, Source, Step};

/// `Expand`.
pub(in super::super) fn expand(site: &Site<'_>) -> Ruled {
    let data = site.data(0)?;
    let value = &data.shaped;
    let target = site.ints(1)?;
    let rank = value.shape.len().max(target.entries.len());
    if rank > MAX_RANK {
        return Err(site.invalid("the target has too many axes"));
    }
    let own = value.batch.map(|b| b.at(b.axis + rank - value.shape.len()));
    let mut shape = vec![1; rank];
    shape[rank - value.shape.len()..].copy_from_slice(&value.shape);
    let mut batch = own;
    for (axis, entry) in (rank - target.entries.len()..).zip(&target.entries) {
        let wrong = || {
            site.invalid(format!("{} does not expand to {entry} along axis {axis}", show(&value.shape, value.batch)))
        };
        let in_range = |d: i64| (1..=MAX_EXTENT).contains(&d).then_some(d as usize);
        match (entry.per_sample, entry.fixed) {
            (0, d) => {
                let d = in_range(d).ok_or_else(wrong)?;
                if let Some(b) = own.filter(|b| b.axis == axis) {
                    let same = d == 1 || site.fixed_batch.is_some_and(|size| size * b.extent() == d);
                    if !same {
                        return Err(site.mixes(
                            format!("it expands the batch axis {axis} to the fixed extent {d}"),
                            format!("expand along a new axis, and {}", site.export_remedy()),
                        ));
                    }
                } else if shape[axis] == 1 {
                    shape[axis] = d;
                } else if d != 1 && d != shape[axis] {
                    return Err(wrong());
                }
            }
            (a, 0) => {
                let a = in_range(a).ok_or_else(wrong)?;
                match own {
                    Some(b) if b.axis == axis && b.extent() == a => {}
                    Some(_) => {
                        return Err(site.mixes(
                            format!("it repeats every sample along axis {axis} for all samples"),
                            "keep one batch axis",
                        ));
                    }
                    None if shape[axis] == 1 && batch.is_none() => {
                        // All rows are equal, so every assignment of rows to samples is correct.
                        batch = Some(BatchAxis { axis, outer: 1, inner: a });
                        shape[axis] = a;
                    }
                    None => return Err(wrong()),
                }
            }
            _ => {
                return Err(site.mixes(
                    format!("the target's extent {entry} along axis {axis} is no multiple of the number N of samples"),
                    "expand every sample alike",
                ));
            }
        }
    }
    let output = Shaped { dtype: value.dtype, shape, batch };
    match data.source {
        Source::Value(input) if output == *value => Ok(Outcome::Alias(Item::Value(input))),
        source => {
            let step = Step { op: "Expand", inputs: vec![source], attributes: vec![], output };
            Ok(Outcome::Steps { steps: vec![step], outputs: vec![0] })
        }
    }
}
