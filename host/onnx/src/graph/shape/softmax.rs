//! `Softmax` and `LogSoftmax`: over one axis, or before opset 13 over all axes from a given axis on.

use super::super::node::{Outcome, Rewritten, Ruled, Shaped, Site};
use super::super::standard::FLATTENS;
use crate::{attr_int, make_attr_int, make_node};

/// Normalises along one axis, which must not contain the samples.
pub(in super::super) fn softmax(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", -1), x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it normalises along axis {axis}, which holds the samples"),
            "apply it to the class axis, as torch.softmax(x, dim=1)",
        ));
    }
    if attr_int(site.attributes(), FLATTENS, 0) != 0 {
        return Ok(flattened(site, axis, &x.shape, x.batch.is_none_or(|at| at.axis < axis)));
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

/// Normalises over all axes from `axis` on: along the only axis longer than 1, or along their product.
fn flattened(site: &Site<'_>, axis: usize, shape: &[usize], is_behind: bool) -> Outcome {
    let (x, y) = (site.node.input[0].as_str(), site.node.output[0].as_str());
    let mut long = (axis..shape.len()).filter(|&at| shape[at] > 1);
    let along = long.next().unwrap_or(axis);
    let name = |part: &str| format!("{y}/{part}");
    let plain =
        |x: &str, y: &str, axis: i64| make_node(site.op(), site.name, &[x], &[y], vec![make_attr_int("axis", axis)]);
    let nodes = if is_behind && long.next().is_none() {
        vec![plain(x, y, along as i64)]
    } else {
        let [flat, normed, sizes] = ["flat", "normed", "sizes"].map(name);
        vec![
            make_node("Flatten", &flat, &[x], &[&flat], vec![make_attr_int("axis", axis as i64)]),
            plain(&flat, &normed, 1),
            make_node("Shape", &sizes, &[x], &[&sizes], vec![]),
            make_node("Reshape", &name("restored"), &[&normed, &sizes], &[y], vec![]),
        ]
    };
    Outcome::Rewritten(Rewritten { nodes, ints: vec![] })
}
