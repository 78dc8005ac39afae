//! `InstanceNormalization` and `GroupNormalization`: statistics within one sample.

use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use crate::onnx::attr_int;

/// `InstanceNormalization`: `X [N, C, ...]`, scale and bias `[C]`.
pub(in super::super) fn instance(site: &Site<'_>) -> Ruled {
    let x = data(site)?;
    scales(site, x.shape[1], "channels")?;
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

/// `GroupNormalization`: scale and bias are `[num_groups]` before operator set 21, `[C]` from there on.
pub(in super::super) fn group(site: &Site<'_>) -> Ruled {
    let x = data(site)?;
    let groups = usize::try_from(attr_int(site.attributes(), "num_groups", 0)).unwrap_or(0);
    if groups == 0 || !x.shape[1].is_multiple_of(groups) {
        return Err(site.invalid(format!("{} channels do not divide into {groups} groups", x.shape[1])));
    }
    if site.opset < 21 {
        scales(site, groups, "groups")?
    } else {
        scales(site, x.shape[1], "channels")?
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

fn data<'a>(site: &Site<'a>) -> Result<&'a Value, GraphError> {
    let x = site.float(0)?;
    if x.shape.len() < 3 {
        return Err(site.invalid(format!("data of rank {} has no spatial axes", x.shape.len())));
    }
    match x.batch {
        Some(at) if at.axis != 0 => Err(site.mixes(
            format!("it normalises along axis {}, which holds the samples of '{}'", at.axis, x.name),
            "put the batch along axis 0",
        )),
        _ => Ok(x),
    }
}

fn scales(site: &Site<'_>, extent: usize, what: &str) -> Result<(), GraphError> {
    for index in [1, 2] {
        let scale = site.float(index)?;
        if scale.shape != [extent] || scale.batch.is_some() {
            return Err(site.invalid(format!(
                "input {index} ('{}') has the shape {:?}, not one number for each of {extent} {what}",
                scale.name, scale.shape
            )));
        }
    }
    Ok(())
}
