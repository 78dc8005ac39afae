//! Output extents of sliding windows: convolution, pooling, and transposed convolution.

use super::super::GraphError;
use super::super::node::Site;

/// Integers of attribute `name`: `length` values, none below `least`.
fn list(site: &Site<'_>, name: &str, length: usize, default: i64, least: i64) -> Result<Vec<i64>, GraphError> {
    let values = site.attr_ints(name)?.unwrap_or_else(|| vec![default; length]);
    if values.len() != length || values.iter().any(|&v| v < least || v == i64::MAX) {
        return Err(site.invalid(format!("{name} {values:?} do not fit the spatial axes")));
    }
    Ok(values)
}

/// Spatial output extents. `kernel` is the window, and `rounds_up` is `ceil_mode`.
pub(super) fn outputs(
    site: &Site<'_>,
    spatial: &[usize],
    kernel: &[usize],
    rounds_up: bool,
) -> Result<Vec<usize>, GraphError> {
    let rank = spatial.len();
    let list = |name: &str, length: usize, default: i64, least: i64| list(site, name, length, default, least);
    let strides = list("strides", rank, 1, 1)?;
    let dilations = list("dilations", rank, 1, 1)?;
    let pads = list("pads", 2 * rank, 0, 0)?;
    (0..rank)
        .map(|i| {
            let (input, stride) = (spatial[i] as i64, strides[i]);
            let window = (kernel[i] as i64 - 1) * dilations[i] + 1;
            let extent = match site.attr_string("auto_pad", "NOTSET") {
                "SAME_UPPER" | "SAME_LOWER" => (input + stride - 1) / stride,
                "VALID" => (input - window).div_euclid(stride) + 1,
                "NOTSET" | "" => {
                    let span = input + pads[i] + pads[i + rank] - window;
                    let mut extent = span.div_euclid(stride) + 1;
                    if rounds_up && span >= 0 && span % stride != 0 {
                        // A window that would start in the end padding is omitted.
                        if extent * stride < input + pads[i] {
                            extent += 1;
                        }
                    }
                    extent
                }
                other => return Err(site.invalid(format!("auto_pad is '{other}'"))),
            };
            match usize::try_from(extent) {
                Ok(extent) if extent > 0 => Ok(extent),
                _ => {
                    Err(site
                        .invalid(format!("the window {window} does not fit the extent {input} of spatial axis {i}")))
                }
            }
        })
        .collect()
}

/// Spatial output extents of a transposed convolution, and its padding if that is not explicit.
pub(super) fn transposed_outputs(
    site: &Site<'_>,
    spatial: &[usize],
    kernel: &[usize],
) -> Result<(Vec<usize>, Option<Vec<i64>>), GraphError> {
    let rank = spatial.len();
    let strides = list(site, "strides", rank, 1, 1)?;
    let dilations = list(site, "dilations", rank, 1, 1)?;
    let rest = list(site, "output_padding", rank, 0, 0)?;
    let pads = list(site, "pads", 2 * rank, 0, 0)?;
    let mode = site.attr_string("auto_pad", "NOTSET");
    if !matches!(mode, "NOTSET" | "" | "VALID" | "SAME_UPPER" | "SAME_LOWER") {
        return Err(site.invalid(format!("auto_pad is '{mode}'")));
    }
    let wanted: Option<Vec<i64>> = match site.attr_ints("output_shape")? {
        // Some exporters write the whole shape.
        Some(shape) if shape.len() == rank || shape.len() == rank + 2 => Some(shape[shape.len() - rank..].to_vec()),
        Some(shape) => return Err(site.invalid(format!("output_shape {shape:?} does not fit the spatial axes"))),
        None if mode.starts_with("SAME") => {
            Some((0..rank).map(|i| (spatial[i] as i64).saturating_mul(strides[i])).collect())
        }
        None => None,
    };
    let mut extents = Vec::with_capacity(rank);
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    for i in 0..rank {
        let window = (kernel[i] as i64 - 1).saturating_mul(dilations[i]).saturating_add(1);
        let whole = (spatial[i] as i64 - 1).saturating_mul(strides[i]).saturating_add(window).saturating_add(rest[i]);
        if rest[i] >= strides[i] {
            return Err(site.invalid(format!("output_padding {rest:?} is not smaller than the strides")));
        }
        let extent = match (&wanted, mode) {
            (Some(wanted), _) => wanted[i],
            (None, "VALID") => whole,
            (None, _) => whole - pads[i] - pads[i + rank],
        };
        if extent < 1 || extent > whole {
            return Err(site.invalid(format!("its extent along spatial axis {i} would be {extent} of {whole}")));
        }
        extents.push(extent as usize);
        let total = whole - extent;
        let less = total / 2;
        begin.push(if mode == "SAME_UPPER" { less } else { total - less });
        end.push(if mode == "SAME_UPPER" { total - less } else { less });
    }
    let written_out = wanted.is_none() && matches!(mode, "NOTSET" | "");
    Ok((extents, (!written_out).then(|| [begin, end].concat())))
}
