//! `Conv` and `ConvTranspose`, over any number of spatial axes.

use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use super::rewrite::Rewrite;
use super::window::{outputs, transposed_outputs};
use crate::{attr_int, make_attr_ints};

/// `Conv`: `X [N, C, ...]`, `W [M, C/group, ...]`, `B [M]`.
pub(in super::super) fn conv(site: &Site<'_>) -> Ruled {
    let (x, w) = operands(site)?;
    let group = usize::try_from(attr_int(site.attributes(), "group", 1)).unwrap_or(0);
    let channels = w.shape[1].checked_mul(group);
    if group == 0 || channels != Some(x.shape[1]) || w.shape[0] % group != 0 {
        return Err(site
            .invalid(format!("{} channels in {group} groups do not fit a kernel of shape {:?}", x.shape[1], w.shape)));
    }
    let mut shape = vec![x.shape[0], w.shape[0]];
    shape.extend(outputs(site, &x.shape[2..], &w.shape[2..], false)?);
    bias(site, w.shape[0])?;
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}

/// `ConvTranspose`: `X [N, C, ...]`, `W [C, M/group, ...]`, `B [M]`. Padding from `auto_pad` or `output_shape` becomes
/// explicit.
pub(in super::super) fn conv_transpose(site: &Site<'_>) -> Ruled {
    let (x, w) = operands(site)?;
    let group = usize::try_from(attr_int(site.attributes(), "group", 1)).unwrap_or(0);
    let channels = w.shape[1].checked_mul(group).filter(|_| group > 0 && x.shape[1].is_multiple_of(group));
    let Some(channels) = channels.filter(|_| w.shape[0] == x.shape[1]) else {
        return Err(site.invalid(format!(
            "{} channels in {group} groups do not fit a transposed kernel of shape {:?}",
            x.shape[1], w.shape
        )));
    };
    let (spatial, pads) = transposed_outputs(site, &x.shape[2..], &w.shape[2..])?;
    if let Some(pads) = pads {
        let explicit = ["auto_pad", "output_shape", "pads"];
        let kept = site.attributes().iter().filter(|attribute| !explicit.contains(&attribute.name.as_str()));
        let mut attributes: Vec<_> = kept.cloned().collect();
        attributes.push(make_attr_ints("pads", &pads));
        let inputs: Vec<&str> = site.node.input.iter().map(String::as_str).collect();
        return Ok(Rewrite::of(site).end("ConvTranspose", &inputs, attributes));
    }
    bias(site, channels)?;
    let shape = [&[x.shape[0], channels], &spatial[..]].concat();
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}

/// Data with the batch along axis 0, and a kernel that is the same for all samples.
fn operands<'a>(site: &Site<'a>) -> Result<(&'a Value, &'a Value), GraphError> {
    let (x, w) = (site.float(0)?, site.float(1)?);
    let rank = x.shape.len();
    if rank < 3 || w.shape.len() != rank {
        return Err(site.invalid(format!("data of rank {rank} does not fit a kernel of rank {}", w.shape.len())));
    }
    if let Some(at) = x.batch.filter(|at| at.axis != 0) {
        return Err(site.mixes(
            format!("the samples of '{}' lie along axis {}, over which it sums", x.name, at.axis),
            "put the batch along axis 0",
        ));
    }
    if w.batch.is_some() {
        return Err(site.refused(
            format!("its kernel '{}' differs by sample", w.name),
            "use a kernel that is the same for all samples",
        ));
    }
    if let Some(kernel) = site.attr_ints("kernel_shape")?
        && !kernel.iter().map(|&k| k as usize).eq(w.shape[2..].iter().copied())
    {
        return Err(site.invalid(format!("kernel_shape {kernel:?} is not that of the kernel {:?}", w.shape)));
    }
    Ok((x, w))
}

fn bias(site: &Site<'_>, channels: usize) -> Result<(), GraphError> {
    if !site.has(2) {
        return Ok(());
    }
    let bias = site.float(2)?;
    if bias.shape != [channels] || bias.batch.is_some() {
        return Err(site.invalid(format!("the bias '{}' is not of shape [{channels}]", bias.name)));
    }
    Ok(())
}
