//! `DepthToSpace` and `SpaceToDepth`: blocks of channels and positions, rewritten as a reshape, a transpose and a
//! reshape.

use super::super::node::{Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{GraphError, Value};
use crate::{attr_int, make_attr_ints};

/// `DepthToSpace`: `[N, C, H, W]` to `[N, C / b², H · b, W · b]`.
pub(in super::super) fn to_space(site: &Site<'_>) -> Ruled {
    let (x, [n, c, h, w], b) = image(site)?;
    if !c.is_multiple_of(b * b) {
        return Err(site.invalid(format!("{c} channels do not divide into blocks of {b} by {b}")));
    }
    let depth = c / (b * b);
    let (split, perm) = match site.attr_string("mode", "DCR") {
        "CRD" => ([n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        _ => ([n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2]),
    };
    steps(site, x, split, perm, [n, depth, h * b, w * b])
}

/// `SpaceToDepth`: `[N, C, H, W]` to `[N, C · b², H / b, W / b]`.
pub(in super::super) fn to_depth(site: &Site<'_>) -> Ruled {
    let (x, [n, c, h, w], b) = image(site)?;
    if !h.is_multiple_of(b) || !w.is_multiple_of(b) {
        return Err(site.invalid(format!("{h} by {w} places do not divide into blocks of {b} by {b}")));
    }
    steps(site, x, [n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4], [n, c * b * b, h / b, w / b])
}

fn image<'a>(site: &Site<'a>) -> Result<(&'a Value, [usize; 4], usize), GraphError> {
    let x = site.value(0)?;
    let block = usize::try_from(attr_int(site.attributes(), "blocksize", 0)).ok();
    let block =
        block.filter(|b| (1..=1 << 15).contains(b)).ok_or_else(|| site.invalid("its block size is out of range"))?;
    let Ok(shape) = <[usize; 4]>::try_from(x.shape.as_slice()) else {
        return Err(site.invalid(format!("data of rank {} is no image [N, C, H, W]", x.shape.len())));
    };
    match x.batch {
        Some(at) if at.axis != 0 => Err(site.mixes(
            format!("it moves elements between axes of which one, axis {}, holds the samples", at.axis),
            "put the batch along axis 0",
        )),
        _ => Ok((x, shape, block)),
    }
}

fn steps(site: &Site<'_>, x: &Value, split: [usize; 6], perm: [usize; 6], to: [usize; 4]) -> Ruled {
    let shaped = |shape: Vec<usize>| Shaped { shape, ..Shaped::of(x) };
    let turned = perm.iter().map(|&axis| split[axis]).collect();
    let perm = make_attr_ints("perm", &perm.map(|axis| axis as i64));
    let step = |op, input, attributes, output| Step { op, inputs: vec![input], attributes, output };
    let steps = vec![
        step("Reshape", Source::Value(site.id(0)?), vec![], shaped(split.to_vec())),
        step("Transpose", Source::Step(0), vec![perm], shaped(turned)),
        step("Reshape", Source::Step(1), vec![], shaped(to.to_vec())),
    ];
    Ok(Outcome::Steps { steps, outputs: vec![2] })
}
