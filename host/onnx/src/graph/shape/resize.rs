//! `Resize` within samples, converted to one known scale for each axis.

use super::super::affine::Affine;
use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{GraphError, Value};
use super::pad::MAX_MAPPED;
use super::rewrite::Rewrite;
use crate::{attr_int, attr_ints};

/// `Resize` by constant scales or to constant sizes.
pub(in super::super) fn resize(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    supported(site)?;
    let rank = x.shape.len();
    let axes = match attr_ints(site.attributes(), "axes") {
        Some(axes) => axes.iter().map(|&axis| site.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    let given = site.floats(2)?.filter(|scales| !scales.is_empty());
    let mut scales = vec![1.0f32; rank];
    let mut shape = x.shape.clone();
    match &given {
        Some(given) if given.len() == axes.len() => {
            for (&axis, &scale) in axes.iter().zip(given) {
                let extent = (x.shape[axis] as f32 * scale).floor();
                if !(scale > 0.0 && (1.0..=MAX_MAPPED as f32).contains(&extent)) {
                    return Err(site.invalid(format!("a scale of {scale} does not fit the extent {}", x.shape[axis])));
                }
                shape[axis] = extent as usize;
                scales[axis] = reaching(scale, x.shape[axis], shape[axis]);
            }
        }
        Some(given) => return Err(site.invalid(format!("{} scales do not fit {} axes", given.len(), axes.len()))),
        None => {
            let sizes = site.ints(3)?;
            if sizes.entries.len() != axes.len() {
                return Err(site.invalid(format!("{} sizes do not fit {} axes", sizes.entries.len(), axes.len())));
            }
            for (&axis, &size) in axes.iter().zip(&sizes.entries) {
                if keeps(site, x, axis, size) {
                    continue;
                }
                let size = size.constant().filter(|size| (1..=MAX_MAPPED).contains(size));
                let size = size.ok_or_else(|| site.invalid(format!("the size along axis {axis} is not a constant")))?;
                shape[axis] = size as usize;
                scales[axis] = reaching(shape[axis] as f32 / x.shape[axis] as f32, x.shape[axis], shape[axis]);
            }
        }
    }
    if site.attr_string("coordinate_transformation_mode", "half_pixel") == "align_corners" {
        // The sizes matter. Some runtimes compute them from the scales.
        for (axis, scale) in scales.iter_mut().enumerate() {
            *scale = reaching(shape[axis] as f32 / x.shape[axis] as f32, x.shape[axis], shape[axis]);
        }
    }
    if let Some(at) = x.batch.filter(|at| scales[at.axis] != 1.0) {
        return Err(site.mixes(
            format!("it interpolates along axis {}, which holds the samples", at.axis),
            "resize the axes behind the batch only",
        ));
    }
    if shape.iter().zip(&x.shape).any(|(&d, &from)| d != from && from as i64 > MAX_MAPPED) {
        return Err(site.invalid("an axis that it resizes is too long"));
    }
    let is_canonical = axes.iter().copied().eq(0..rank) && !site.has(1) && !site.has(3);
    if is_canonical && given.as_ref() == Some(&scales) {
        return Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch: x.batch }]));
    }
    let kept = ["mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside"];
    let attributes = site.attributes().iter().filter(|attribute| kept.contains(&attribute.name.as_str())).cloned();
    let mut rewrite = Rewrite::of(site);
    let scales = rewrite.floats(&[rank], scales);
    Ok(rewrite.end("Resize", &[&site.node.input[0], "", &scales], attributes.collect()))
}

fn supported(site: &Site<'_>) -> Result<(), GraphError> {
    let mode = site.attr_string("mode", "nearest");
    let coordinates = site.attr_string("coordinate_transformation_mode", "half_pixel");
    let nearest = site.attr_string("nearest_mode", "round_prefer_floor");
    let policy = site.attr_string("keep_aspect_ratio_policy", "stretch");
    let remedy = "export the model with an interpolation of torch.nn.functional.interpolate to fixed sizes";
    if !matches!(mode, "nearest" | "linear" | "cubic") {
        return Err(site.invalid(format!("mode is '{mode}'")));
    }
    if !matches!(
        coordinates,
        "half_pixel" | "pytorch_half_pixel" | "align_corners" | "asymmetric" | "half_pixel_symmetric"
    ) {
        return Err(site.refused(format!("its coordinates are those of '{coordinates}'"), remedy));
    }
    if !matches!(nearest, "round_prefer_floor" | "round_prefer_ceil" | "floor" | "ceil") {
        return Err(site.invalid(format!("nearest_mode is '{nearest}'")));
    }
    if policy != "stretch" {
        return Err(site.refused(format!("its sizes follow the policy '{policy}'"), remedy));
    }
    if attr_int(site.attributes(), "antialias", 0) != 0 {
        return Err(site.refused("it filters against aliasing", "export the model with antialias=False"));
    }
    Ok(())
}

/// Returns true if `size` is the extent of the axis for any number of samples.
fn keeps(site: &Site<'_>, x: &Value, axis: usize, size: Affine) -> bool {
    let extent = x.shape[axis] as i64;
    match x.batch {
        Some(at) if at.axis == axis => {
            let exported = site.fixed_batch.map(|n| extent.saturating_mul(n as i64));
            size == Affine::per_sample(extent) || size.constant().is_some_and(|size| Some(size) == exported)
        }
        _ => size == Affine::fixed(extent),
    }
}

/// `scale`, increased slightly if rounding would make the runtimes disagree on `floor(input · scale)`.
fn reaching(mut scale: f32, input: usize, output: usize) -> f32 {
    while input as f64 * f64::from(scale) < output as f64 {
        scale = scale.next_up();
    }
    scale
}
