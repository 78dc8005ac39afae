//! Rewrites convolutions to equal padding at both ends of every axis.
//!
//! cuDNN pads both ends by the same extent. onnxruntime's CUDA provider runs a `ConvTranspose` with other pads on the
//! processor. It passes those of a `Conv` to cuDNN, which may have no engine for them. The rewrite keeps the values. A
//! transposed convolution gets `output_padding` or a `Slice` after it, and a convolution gets a `Pad` before it.
//!
//! With equal pads, a transposed convolution also loses `before` elements at the end, and `output_padding` returns
//! `before − after` of them. The standard allows it below `max(stride, dilation)`, but here it stays below the stride.
//! Then a convolution over the output has as many windows as there are inputs, and cuDNN computes the gradient of that
//! convolution.

use super::pb::{AttributeProto, GraphProto, ModelProto, NodeProto};
use super::{attr_ints, attr_string, find_attr, make_attr_ints, make_node, make_tensor_i64};

/// Rewrites every `Conv` and `ConvTranspose` of `model` whose pads differ at the two ends of an axis. Pads from
/// `auto_pad` stay.
pub fn make_pads_symmetric(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    for node in std::mem::take(&mut graph.node) {
        let pads = Ends::of(&node).filter(|pads| pads.before != pads.after);
        match (node.op_type.as_str(), pads) {
            ("Conv", Some(pads)) => pad_before(graph, node, &pads),
            ("ConvTranspose", Some(pads)) => cut_after(graph, node, &pads),
            _ => graph.node.push(node),
        }
    }
}

/// Pads of a node, with one entry per axis.
struct Ends {
    before: Vec<i64>,
    after: Vec<i64>,
}

impl Ends {
    /// Explicit pads of `node`. `None` if other attributes determine them.
    fn of(node: &NodeProto) -> Option<Self> {
        let is_stated = node.domain.is_empty()
            && matches!(attr_string(&node.attribute, "auto_pad", "NOTSET"), "NOTSET" | "")
            && find_attr(&node.attribute, "output_shape").is_none();
        let pads = attr_ints(&node.attribute, "pads").filter(|pads| is_stated && pads.len().is_multiple_of(2))?;
        let (before, after) = pads.split_at(pads.len() / 2);
        Some(Self { before: before.to_vec(), after: after.to_vec() })
    }

    /// Smaller pad of each axis.
    fn smaller(&self) -> Vec<i64> {
        self.before.iter().zip(&self.after).map(|(before, after)| *before.min(after)).collect()
    }
}

/// Writes a `Pad` with the difference of the ends, then `node` with equal pads.
fn pad_before(graph: &mut GraphProto, mut node: NodeProto, pads: &Ends) {
    let (Some(input), Some(output)) = (node.input.first_mut(), node.output.first()) else { return };
    let (padded, more) = (format!("dp.padded.{output}"), format!("dp.pads.{output}"));
    let smaller = pads.smaller();
    let rest = |ends: &[i64]| [0, 0].into_iter().chain(ends.iter().zip(&smaller).map(|(end, s)| end - s)).collect();
    let lists: [Vec<i64>; 2] = [rest(&pads.before), rest(&pads.after)];
    graph.initializer.push(make_tensor_i64(&more, &[2 * lists[0].len()], &lists.concat()));
    graph.node.push(make_node("Pad", &padded, &[&*input, &more], &[&padded], vec![]));
    *input = padded;
    set_ints(&mut node.attribute, "pads", &[&smaller[..], &smaller[..]].concat());
    graph.node.push(node);
}

/// Writes `node` with equal pads and `output_padding`. If its stride does not allow that, a `Slice` crops the axis.
fn cut_after(graph: &mut GraphProto, mut node: NodeProto, pads: &Ends) {
    let rank = pads.before.len();
    let list =
        |name: &str, otherwise: i64| attr_ints(&node.attribute, name).map_or(vec![otherwise; rank], <[i64]>::to_vec);
    let (strides, mut extra) = (list("strides", 1), list("output_padding", 0));
    if strides.len() != rank || extra.len() != rank {
        return graph.node.push(node);
    }
    let mut both = pads.before.clone();
    let mut cuts = vec![];
    for axis in 0..rank {
        let (before, after) = (pads.before[axis], pads.after[axis]);
        let rest = extra[axis] + before - after;
        if (0..strides[axis]).contains(&rest) {
            extra[axis] = rest;
        } else {
            both[axis] = before.min(after);
            cuts.push((axis as i64 + 2, before - both[axis], after - both[axis]));
        }
    }
    set_ints(&mut node.attribute, "pads", &[&both[..], &both[..]].concat());
    node.attribute.retain(|attribute| attribute.name != "output_padding");
    if extra.iter().any(|extra| *extra != 0) {
        node.attribute.push(make_attr_ints("output_padding", &extra));
    }
    let slice = node.output.first_mut().filter(|_| !cuts.is_empty()).map(|output| {
        let (uncut, cut) = (format!("dp.uncut.{output}"), std::mem::take(output));
        output.clone_from(&uncut);
        let names = ["starts", "ends", "axes"].map(|name| format!("dp.cut.{cut}.{name}"));
        // Relative to the end of the axis. -0 would be its start.
        let end = |after: i64| if after == 0 { i64::MAX } else { -after };
        let lists: [Vec<i64>; 3] = [
            cuts.iter().map(|(_, before, _)| *before).collect(),
            cuts.iter().map(|(_, _, after)| end(*after)).collect(),
            cuts.iter().map(|(axis, ..)| *axis).collect(),
        ];
        for (name, list) in names.iter().zip(&lists) {
            graph.initializer.push(make_tensor_i64(name, &[list.len()], list));
        }
        let inputs = [&uncut, &names[0], &names[1], &names[2]].map(String::as_str);
        make_node("Slice", &format!("dp.cut.{cut}"), &inputs, &[&cut], vec![])
    });
    graph.node.push(node);
    graph.node.extend(slice);
}

fn set_ints(attributes: &mut Vec<AttributeProto>, name: &str, list: &[i64]) {
    attributes.retain(|attribute| attribute.name != name);
    attributes.push(make_attr_ints(name, list));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make_attr_string;

    type Node = (String, Vec<i64>, Vec<i64>);

    /// Operators, pads and output padding of the nodes that replace a node of `op`, and the constants.
    fn rewritten(op: &str, attributes: Vec<AttributeProto>) -> (Vec<Node>, Vec<Vec<i64>>) {
        let node = vec![make_node(op, "it", &["x", "w"], &["y"], attributes)];
        let mut model = ModelProto { graph: Some(GraphProto { node, ..Default::default() }), ..Default::default() };
        make_pads_symmetric(&mut model);
        let graph = model.graph.unwrap();
        assert_eq!(graph.node.last().unwrap().output, ["y"]);
        let ints = |node: &NodeProto, name: &str| attr_ints(&node.attribute, name).unwrap_or_default().to_vec();
        let read = |node: &NodeProto| (node.op_type.clone(), ints(node, "pads"), ints(node, "output_padding"));
        let words = |bytes: &[u8]| bytes.chunks(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect();
        let constants = graph.initializer.iter().map(|tensor| words(&tensor.raw_data)).collect();
        (graph.node.iter().map(read).collect(), constants)
    }

    fn ints(name: &str, list: &[i64]) -> AttributeProto {
        make_attr_ints(name, list)
    }

    // The first case is the gradient of a 3×3 convolution with stride 2 and padding 1.
    #[test]
    fn strided_gradient_has_output_padding() {
        for (stride, pads, extra, expected) in [
            (2, [1, 1, 0, 0], [0, 0], ([1, 1, 1, 1], vec![1, 1])),
            (3, [1, 0, 0, 0], [1, 2], ([1, 0, 1, 0], vec![2, 2])),
            (2, [0, 2, 1, 2], [1, 0], ([0, 2, 0, 2], vec![])),
        ] {
            let node = vec![ints("strides", &[stride; 2]), ints("pads", &pads), ints("output_padding", &extra)];
            let (nodes, constants) = rewritten("ConvTranspose", node);
            assert_eq!(nodes, [("ConvTranspose".into(), expected.0.to_vec(), expected.1)]);
            assert!(constants.is_empty());
        }
    }

    // The second axis has more pads at the end. The third has more at the start than its stride allows.
    #[test]
    fn other_axes_are_cut() {
        let lists = [ints("strides", &[2, 2, 2]), ints("pads", &[1, 0, 2, 0, 1, 0])];
        let (nodes, constants) = rewritten("ConvTranspose", lists.to_vec());
        let node = ("ConvTranspose".into(), vec![1, 0, 0, 1, 0, 0], vec![1, 0, 0]);
        assert_eq!(nodes, [node, ("Slice".into(), vec![], vec![])]);
        assert_eq!(constants, [vec![0, 2], vec![-1, i64::MAX], vec![3, 4]]);
    }

    #[test]
    fn convolution_is_padded_before() {
        let (nodes, constants) = rewritten("Conv", vec![ints("pads", &[1, 0, 0, 2])]);
        assert_eq!(nodes, [("Pad".into(), vec![], vec![]), ("Conv".into(), vec![0, 0, 0, 0], vec![])]);
        assert_eq!(constants, [[0, 0, 1, 0, 0, 0, 0, 2]]);
    }

    #[test]
    fn other_nodes_stay() {
        let uneven = || ints("pads", &[1, 0]);
        for (op, attributes) in [
            ("ConvTranspose", vec![ints("pads", &[1, 1])]),
            ("ConvTranspose", vec![]),
            ("ConvTranspose", vec![uneven(), ints("output_shape", &[5])]),
            ("Conv", vec![uneven(), make_attr_string("auto_pad", "SAME_UPPER")]),
            ("MaxPool", vec![uneven()]),
        ] {
            let before = ints_of(&attributes);
            let (nodes, constants) = rewritten(op, attributes);
            assert_eq!(nodes, [(op.into(), before, vec![])]);
            assert!(constants.is_empty());
        }
    }

    fn ints_of(attributes: &[AttributeProto]) -> Vec<i64> {
        attr_ints(attributes, "pads").unwrap_or_default().to_vec()
    }
}
