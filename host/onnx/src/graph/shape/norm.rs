//! Normalisations with statistics within one sample.

use super::super::affine::Affine;
use super::super::batch::show;
use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use super::rewrite::Rewrite;
use crate::{attr_float, attr_int, make_attr_float, make_attr_int, make_attr_ints};

/// Maximum number of neighbouring channels in an `LRN`.
const MAX_NEIGHBOURS: i64 = 1 << 16;

/// `InstanceNormalization`: `X [N, C, ...]`, scale and bias `[C]`.
pub(in super::super) fn instance(site: &Site<'_>) -> Ruled {
    let x = data(site)?;
    scales(site, x.shape[1], "channels")?;
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

/// `GroupNormalization`. Scale and bias are `[num_groups]` before opset 21, and `[C]` from opset 21 on.
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

/// `BatchNormalization` in training mode on data without samples, so its statistics are those of the data alone.
/// Convolutions standardise their weights in this way. Rewritten to `InstanceNormalization` of one instance. `None` for
/// any other node.
pub(in super::super) fn batch_of_weight(site: &Site<'_>) -> Option<Ruled> {
    let x = site.float(0).ok().filter(|x| x.batch.is_none() && x.shape.len() >= 2)?;
    let is_trained = site.op() == "BatchNormalization" && attr_int(site.attributes(), "training_mode", 0) != 0;
    is_trained.then(|| {
        scales(site, x.shape[1], "channels")?;
        let inputs = &site.node.input;
        let mut rewrite = Rewrite::of(site);
        let swapped: Vec<i64> = [1, 0].into_iter().chain(2..x.shape.len() as i64).collect();
        let order = || vec![make_attr_ints("perm", &swapped)];
        let channels = x.shape[1] as i64;
        let across: Vec<i64> = swapped.iter().map(|&axis| x.shape[axis as usize] as i64).collect();
        let (rows, back) = (rewrite.fixed([1, channels, across[1..].iter().product()]), rewrite.fixed(across));
        let turned = rewrite.node("Transpose", &[&inputs[0]], order());
        let flat = rewrite.node("Reshape", &[&turned, &rows], vec![]);
        let epsilon = make_attr_float("epsilon", attr_float(site.attributes(), "epsilon", 1e-5));
        let normal = rewrite.node("InstanceNormalization", &[&flat, &inputs[1], &inputs[2]], vec![epsilon]);
        let shaped = rewrite.node("Reshape", &[&normal, &back], vec![]);
        Ok(rewrite.end("Transpose", &[&shaped], order()))
    })
}

/// `LRN`: `X / (bias + alpha · mean of X² over `size` neighbouring channels)^beta`, rewritten to a pool over the
/// channels.
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

/// `LayerNormalization` over the last axes. The scale and the optional bias broadcast to the normalised axes.
pub(in super::super) fn layer(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let first = site.axis(attr_int(site.attributes(), "axis", -1), x.shape.len())?;
    if let Some(at) = x.batch.filter(|at| at.axis >= first) {
        return Err(site.mixes(
            format!("it normalises over the axes from {first}, and axis {} holds the samples of '{}'", at.axis, x.name),
            "normalise within each sample, as torch.nn.LayerNorm(features) does",
        ));
    }
    if site.node.output.iter().skip(1).any(|name| !name.is_empty()) {
        return Err(site.refused(
            "it also returns the mean or the deviation",
            "leave its second and third outputs out (empty names), or compute them with ReduceMean",
        ));
    }
    for index in (1..3).filter(|&index| index == 1 || site.has(index)) {
        let affine = site.float(index)?;
        let fits = affine.shape.len() <= x.shape.len() - first
            && affine.shape.iter().rev().zip(x.shape.iter().rev()).all(|(&own, &d)| own == d || own == 1);
        if !fits || affine.batch.is_some() || affine.dtype != x.dtype {
            return Err(site.invalid(format!(
                "input {index} ('{}') has the shape {}, which does not broadcast to the normalised {:?}",
                affine.name,
                show(&affine.shape, affine.batch),
                &x.shape[first..]
            )));
        }
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

/// `RMSNormalization` over the last axes: `X / √(mean of X² + ε) · scale`, rewritten to simpler operators.
pub(in super::super) fn root_mean_square(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let first = site.axis(attr_int(site.attributes(), "axis", -1), x.shape.len())?;
    let axes: Vec<i64> = (first..x.shape.len()).map(|axis| axis as i64).collect();
    over(site, x, &axes)?;
    let inputs = &site.node.input;
    let mut out = Rewrite::of(site);
    let epsilon = out.floats(&[], vec![attr_float(site.attributes(), "epsilon", 1e-5)]);
    let square = out.node("Mul", &[&inputs[0], &inputs[0]], vec![]);
    let mean = if site.opset < 18 {
        out.node("ReduceMean", &[&square], vec![make_attr_ints("axes", &axes)])
    } else {
        let axes = out.fixed(axes);
        out.node("ReduceMean", &[&square, &axes], vec![])
    };
    let sum = out.node("Add", &[&mean, &epsilon], vec![]);
    let root = out.node("Sqrt", &[&sum], vec![]);
    let unit = out.node("Div", &[&inputs[0], &root], vec![]);
    Ok(out.end("Mul", &[&unit, &inputs[1]], vec![]))
}

/// `LpNormalization` along one axis.
pub(in super::super) fn lp(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let order = attr_int(site.attributes(), "p", 2);
    if !(1..=2).contains(&order) {
        return Err(site.invalid(format!("p is {order}, not 1 or 2")));
    }
    over(site, x, &[attr_int(site.attributes(), "axis", -1)])
}

/// `MeanVarianceNormalization` over axes. The default axes are those of a whole batch of images.
pub(in super::super) fn mean_variance(site: &Site<'_>) -> Ruled {
    let axes = site.attr_ints("axes")?.unwrap_or(vec![0, 2, 3]);
    over(site, site.float(0)?, &axes)
}

fn over(site: &Site<'_>, x: &Value, axes: &[i64]) -> Ruled {
    for &axis in axes {
        let axis = site.axis(axis, x.shape.len())?;
        if x.batch.is_some_and(|at| at.axis == axis) {
            return Err(site.mixes(
                format!("it normalises over axis {axis}, which holds the samples of '{}'", x.name),
                "normalise within each sample, over the axes of its features",
            ));
        }
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
