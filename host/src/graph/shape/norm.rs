//! `InstanceNormalization`, `GroupNormalization` and `LRN`: statistics within one sample.

use super::super::affine::Affine;
use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use super::rewrite::Rewrite;
use crate::onnx::{attr_float, attr_int, make_attr_int, make_attr_ints};

/// No `LRN` reaches over more channels.
const MAX_NEIGHBOURS: i64 = 1 << 16;

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

/// `LRN`: `X / (bias + alpha · mean of X² over `size` neighbouring channels)^beta`, written as a pool over the channels.
pub(in super::super) fn local_response(site: &Site<'_>) -> Ruled {
    let x = data(site)?;
    let attributes = site.attributes();
    let size = attr_int(attributes, "size", 0);
    if !(1..=MAX_NEIGHBOURS).contains(&size) {
        return Err(site.invalid(format!("its size is {size}")));
    }
    let first = match x.batch {
        Some(_) => Affine::per_sample(x.shape[0] as i64),
        None => Affine::fixed(x.shape[0] as i64),
    };
    let extents = |rest: &[usize]| {
        let rest = rest.iter().map(|&d| Affine::fixed(d as i64));
        std::iter::once(first).chain(rest).collect::<Vec<_>>()
    };
    let mut rewrite = Rewrite::of(site);
    let data = site.node.input[0].as_str();
    let planes = rewrite.ints(extents(&[1, x.shape[1], x.shape[2..].iter().product()]));
    let back = rewrite.ints(extents(&x.shape[1..]));
    let mut float = |name, default| {
        let value = attr_float(attributes, name, default);
        rewrite.floats(&[], vec![value])
    };
    let (alpha, beta, bias) = (float("alpha", 1e-4), float("beta", 0.75), float("bias", 1.0));
    let square = rewrite.node("Mul", &[data, data], vec![]);
    let square = rewrite.node("Reshape", &[&square, &planes], vec![]);
    let before = (size - 1) / 2;
    let window = vec![
        make_attr_ints("kernel_shape", &[size, 1]),
        make_attr_ints("pads", &[before, 0, size - 1 - before, 0]),
        make_attr_int("count_include_pad", 1),
    ];
    let mean = rewrite.node("AveragePool", &[&square], window);
    let mean = rewrite.node("Reshape", &[&mean, &back], vec![]);
    let scaled = rewrite.node("Mul", &[&mean, &alpha], vec![]);
    let sum = rewrite.node("Add", &[&scaled, &bias], vec![]);
    let power = rewrite.node("Pow", &[&sum, &beta], vec![]);
    Ok(rewrite.end("Div", &[data, &power], vec![]))
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
