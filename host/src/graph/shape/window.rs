//! Output extents of sliding windows: convolution and pooling.

use super::super::GraphError;
use super::super::node::Site;

/// The spatial output extents. `kernel` is the window, `rounds_up` is `ceil_mode`.
pub(super) fn outputs(
    site: &Site<'_>,
    spatial: &[usize],
    kernel: &[usize],
    rounds_up: bool,
) -> Result<Vec<usize>, GraphError> {
    let rank = spatial.len();
    let list = |name: &str, length: usize, default: i64, least: i64| -> Result<Vec<i64>, GraphError> {
        let values = site.attr_ints(name)?.unwrap_or_else(|| vec![default; length]);
        if values.len() != length || values.iter().any(|&v| v < least || v == i64::MAX) {
            return Err(site.invalid(format!("{name} {values:?} do not fit {rank} spatial axes")));
        }
        Ok(values)
    };
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
                        // A window that would start in the end padding is left out.
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
