//! `Pad`, within samples.

use super::super::node::{Item, Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Origin};
use super::rewrite::Rewrite;

/// Maximum length of a padded or resized axis, whose index map is a list.
pub(super) const MAX_MAPPED: i64 = 1 << 20;

/// `Pad` with known pads, converted to one pair for each axis.
pub(in super::super) fn pad(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let rank = x.shape.len();
    let mode = site.attr_string("mode", "constant");
    if !matches!(mode, "constant" | "reflect" | "edge" | "wrap") {
        return Err(site.invalid(format!("mode is '{mode}'")));
    }
    let given = site.constants(1)?.ok_or_else(|| site.invalid("pads are expected"))?;
    let axes = match site.constants(3)? {
        Some(axes) => axes.into_iter().map(|axis| site.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    if given.len() != 2 * axes.len() || given.iter().any(|pad| pad.abs() > MAX_MAPPED) {
        return Err(site.invalid(format!("pads {given:?} do not fit {} axes", axes.len())));
    }
    let mut pads = vec![0; 2 * rank];
    for (i, &axis) in axes.iter().enumerate() {
        pads[axis] = given[i];
        pads[axis + rank] = given[i + axes.len()];
    }
    let mut shape = x.shape.clone();
    for axis in 0..rank {
        let (before, after) = (pads[axis], pads[axis + rank]);
        if (before, after) == (0, 0) {
            continue;
        }
        if x.batch.is_some_and(|at| at.axis == axis) {
            return Err(site.mixes(
                format!("it adds rows along axis {axis}, which holds the samples"),
                "pad within each sample only",
            ));
        }
        let extent = shape[axis] as i64;
        if extent > MAX_MAPPED || extent + before.min(0) + after.min(0) < 1 {
            return Err(site.invalid(format!("pads of {before} and {after} do not fit the extent {extent}")));
        }
        shape[axis] = (extent + before + after) as usize;
    }
    if pads.iter().all(|&pad| pad == 0) {
        return Ok(Outcome::Alias(Item::Value(site.id(0)?)));
    }
    if mode == "constant" {
        constant_value(site)?;
    }
    if !x.dtype.is_float() && mode == "constant" && pads.iter().any(|&pad| pad < 0) {
        return Err(site.refused("it crops integers", "write the crop as a slice"));
    }
    if site.has(3) {
        let mut rewrite = Rewrite::of(site);
        let pads = rewrite.fixed(pads);
        let mut inputs = vec![site.node.input[0].as_str(), &pads];
        inputs.extend(site.node.input.get(2).map(String::as_str));
        return Ok(rewrite.end("Pad", &inputs, site.attributes().to_vec()));
    }
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]))
}

/// Fails unless the padding value is a known scalar.
fn constant_value(site: &Site<'_>) -> Result<(), GraphError> {
    match site.inputs.get(2) {
        None | Some(None) => Ok(()),
        Some(Some(Item::Ints(ints))) if ints.entries.len() == 1 => Ok(()),
        Some(Some(Item::Ints(_))) => Err(site.invalid("input 2 is not one number")),
        Some(Some(Item::Value(id))) => {
            let value = &site.values[id.0];
            match value.origin {
                Origin::Constant(_) | Origin::Parameter(_) if value.shape.iter().all(|&d| d == 1) => Ok(()),
                Origin::Constant(_) | Origin::Parameter(_) => Err(site.invalid("input 2 is not one number")),
                Origin::Input | Origin::Node { .. } => Err(site.refused(
                    format!("the number it pads with ('{}') is computed", value.name),
                    "pad with a constant, or concatenate instead",
                )),
            }
        }
    }
}
