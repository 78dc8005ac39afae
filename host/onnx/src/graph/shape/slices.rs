//! Ranges of an axis that a `Slice` or a `Split` selects.

use super::super::GraphError;
use super::super::node::Site;
use crate::attr_int;

/// First element and number of elements of a slice (start, end, step) on an axis of `length`.
pub(in super::super) fn span(
    site: &Site<'_>,
    (start, end, step): (i64, i64, i64),
    length: i64,
) -> Result<(i64, usize), GraphError> {
    let clamp = |at: i64, low: i64, high: i64| if at < 0 { at.saturating_add(length) } else { at }.clamp(low, high);
    let (start, span) = match step {
        _ if length == 0 => return Ok((0, 0)),
        0 => return Err(site.invalid("the step of a slice is 0")),
        1.. => (clamp(start, 0, length), clamp(end, 0, length) - clamp(start, 0, length)),
        _ => (clamp(start, -1, length - 1), clamp(start, -1, length - 1) - clamp(end, -1, length - 1)),
    };
    Ok((start, (span.max(0) as u64).div_ceil(step.unsigned_abs()) as usize))
}

/// Axis and sizes of the parts of a `Split` on data of shape `shape`.
pub(in super::super) fn parts(site: &Site<'_>, shape: &[usize]) -> Result<(usize, Vec<usize>), GraphError> {
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), shape.len())?;
    let (whole, outputs) = (shape[axis], site.node.output.len());
    let sizes: Vec<usize> = match site.constants(1)? {
        Some(sizes) => sizes
            .into_iter()
            .map(|d| usize::try_from(d).ok().filter(|&d| d > 0))
            .collect::<Option<_>>()
            .ok_or_else(|| site.invalid("a part is empty"))?,
        None => {
            let size = whole.div_ceil(outputs);
            let last = (outputs - 1).checked_mul(size).and_then(|rest| whole.checked_sub(rest)).filter(|&d| d > 0);
            let last = last.ok_or_else(|| site.invalid(format!("{whole} rows do not split into {outputs} parts")))?;
            [vec![size; outputs - 1], vec![last]].concat()
        }
    };
    let total = sizes.iter().try_fold(0usize, |n, &d| n.checked_add(d));
    if sizes.len() != outputs || total != Some(whole) {
        return Err(site.invalid(format!("parts {sizes:?} for {outputs} outputs do not fill {whole} rows")));
    }
    Ok((axis, sizes))
}
