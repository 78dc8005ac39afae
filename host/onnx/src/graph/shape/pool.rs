//! `MaxPool`, `AveragePool`, `GlobalAveragePool`, `GlobalMaxPool`: windows over the spatial axes.

use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use super::rewrite::Rewrite;
use super::window::outputs;
use crate::{attr_int, make_attr_ints};

/// `MaxPool` and `AveragePool`.
pub(in super::super) fn window(site: &Site<'_>) -> Ruled {
    let x = spatial(site)?;
    if site.node.output.get(1).is_some_and(|name| !name.is_empty()) {
        return Err(site.mixes(
            "its second output counts places over the whole batch",
            "export the pool without indices (return_indices=False)",
        ));
    }
    let kernel = site.attr_ints("kernel_shape")?.unwrap_or_default();
    if kernel.len() + 2 != x.shape.len() || kernel.iter().any(|&k| k < 1 || k == i64::MAX) {
        return Err(site.invalid(format!("kernel_shape {kernel:?} does not fit data of rank {}", x.shape.len())));
    }
    let kernel: Vec<usize> = kernel.iter().map(|&k| k as usize).collect();
    if site.attr_string("auto_pad", "NOTSET") == "NOTSET"
        && let Some(pads) = site.attr_ints("pads")?
        && let Some(axis) = pads.iter().zip(kernel.iter().cycle()).position(|(&pad, &k)| pad >= k as i64)
    {
        return Err(site.invalid(format!("padding of {} makes windows that hold no element", pads[axis])));
    }
    let rounds_up = attr_int(site.attributes(), "ceil_mode", 0) != 0;
    let mut shape = x.shape[..2].to_vec();
    shape.extend(outputs(site, &x.shape[2..], &kernel, rounds_up)?);
    if rounds_up
        && matches!(site.attr_string("auto_pad", "NOTSET"), "NOTSET" | "")
        && site.node.output.len() == 1
        && let Some(outcome) = without_rest(site, &x.shape[2..], &shape[2..], &kernel)?
    {
        return Ok(outcome);
    }
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}

/// Pool on cropped input, without the trailing elements that no window reads because the window that would start there
/// is omitted. Not all runtimes infer the omission. `None` without such elements.
fn without_rest(
    site: &Site<'_>,
    input: &[usize],
    output: &[usize],
    kernel: &[usize],
) -> Result<Option<Outcome>, GraphError> {
    let rank = input.len();
    let mut pads = site.attr_ints("pads")?.unwrap_or_else(|| vec![0; 2 * rank]);
    let (strides, dilations) = (site.attr_ints("strides")?, site.attr_ints("dilations")?);
    // Axes with trailing elements that no window reads, and the numbers of these elements.
    let (mut axes, mut ends) = (vec![], vec![]);
    let mut trims = false;
    for i in 0..rank {
        let step = |list: &Option<Vec<i64>>| list.as_ref().map_or(1, |list| list[i]);
        let span = input[i] as i64 + pads[i] + pads[i + rank] - (kernel[i] as i64 - 1) * step(&dilations) - 1;
        let left = span - (output[i] as i64 - 1) * step(&strides);
        if left > 0 {
            let unread = left - left.min(pads[i + rank]);
            if unread > 0 {
                axes.push(i as i64 + 2);
                ends.push(-unread);
            }
            pads[i + rank] -= left - unread;
            trims = true;
        }
    }
    if !trims {
        return Ok(None);
    }
    let mut written = Rewrite::of(site);
    let mut data = site.node.input[0].clone();
    if !axes.is_empty() {
        let starts = written.fixed(axes.iter().map(|_| 0));
        let (ends, axes) = (written.fixed(ends), written.fixed(axes));
        data = written.node("Slice", &[&data, &starts, &ends, &axes], vec![]);
    }
    let mut attributes: Vec<_> = site.attributes().iter().filter(|a| a.name != "pads").cloned().collect();
    attributes.push(make_attr_ints("pads", &pads));
    Ok(Some(written.end(site.op(), &[&data], attributes)))
}

/// `GlobalAveragePool` and `GlobalMaxPool`.
pub(in super::super) fn global(site: &Site<'_>) -> Ruled {
    let x = spatial(site)?;
    let mut shape = vec![1; x.shape.len()];
    shape[..2].copy_from_slice(&x.shape[..2]);
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}

fn spatial<'a>(site: &Site<'a>) -> Result<&'a Value, GraphError> {
    let x = site.float(0)?;
    if x.shape.len() < 3 {
        return Err(site.invalid(format!("data of rank {} has no spatial axes", x.shape.len())));
    }
    match x.batch {
        Some(at) if at.axis >= 2 => Err(site.mixes(
            format!("its window runs along axis {}, which holds the samples of '{}'", at.axis, x.name),
            "put the batch along axis 0",
        )),
        _ => Ok(x),
    }
}
