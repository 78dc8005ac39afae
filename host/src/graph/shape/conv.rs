//! `Conv`, over any number of spatial axes.

use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::window::outputs;
use crate::onnx::attr_int;

/// `Conv`: `X [N, C, ...]`, `W [M, C/group, ...]`, `B [M]`.
pub(in super::super) fn conv(site: &Site<'_>) -> Ruled {
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
    let group = usize::try_from(attr_int(site.attributes(), "group", 1)).unwrap_or(0);
    let channels = w.shape[1].checked_mul(group);
    if group == 0 || channels != Some(x.shape[1]) || w.shape[0] % group != 0 {
        return Err(site
            .invalid(format!("{} channels in {group} groups do not fit a kernel of shape {:?}", x.shape[1], w.shape)));
    }
    if let Some(kernel) = site.attr_ints("kernel_shape")?
        && !kernel.iter().map(|&k| k as usize).eq(w.shape[2..].iter().copied())
    {
        return Err(site.invalid(format!("kernel_shape {kernel:?} is not that of the kernel {:?}", w.shape)));
    }
    let mut shape = vec![x.shape[0], w.shape[0]];
    shape.extend(outputs(site, &x.shape[2..], &w.shape[2..], false)?);
    if site.has(2) {
        let bias = site.float(2)?;
        if bias.shape != [w.shape[0]] || bias.batch.is_some() {
            return Err(site.invalid(format!("the bias '{}' is not of shape [{}]", bias.name, w.shape[0])));
        }
    }
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}
