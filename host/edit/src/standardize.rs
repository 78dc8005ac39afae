//! Weight standardisation (Qiao et al., arXiv 1903.10520), scaled as in Brock et al. (arXiv 2101.08692). Each filter of
//! a convolution is its parameters minus their mean, divided by the norm of that difference. The file contains the
//! parameters, which are trained.
//!
//! De et al. (arXiv 2204.13650) show that it improves private training.

use super::rewrite::{list_new, readers};
use damper_onnx::pb::ModelProto;
use damper_onnx::{
    make_attr_int, make_attr_ints, make_attr_tensor, make_node, make_tensor_f32, make_tensor_i64, node_name,
};
use std::collections::HashSet;

/// Added to the mean square of a filter, so that a constant filter becomes zero.
const EPSILON: f32 = 1e-8;

/// Weight of a convolution that is standardised, or the reason why it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightChange {
    /// First convolution that reads it.
    pub node: String,
    /// Name of the weight.
    pub weight: String,
    /// Reason why it stays unchanged. `None` if it is standardised.
    pub kept: Option<&'static str>,
}

/// Standardises the weight of every `Conv` of `model`, filter by filter. The outputs change. A weight that the model
/// computes stays unchanged because it may already be standardised. Returns a change for each weight, in the order of
/// the nodes.
pub fn standardize_weights(model: &mut ModelProto) -> Vec<WeightChange> {
    let listed = model.ir_version < 4;
    let axes_are_inputs =
        model.opset_import.iter().any(|set| matches!(&*set.domain, "" | "ai.onnx") && set.version >= 18);
    let Some(graph) = model.graph.as_mut() else { return vec![] };
    let before: HashSet<String> = graph.initializer.iter().map(|tensor| tensor.name.clone()).collect();
    let mut changes: Vec<WeightChange> = Vec::new();
    let convolutions: Vec<(String, String)> = (graph.node.iter().enumerate())
        .filter(|(_, node)| node.op_type == "Conv" && node.input.len() > 1)
        .map(|(at, node)| (node_name(node, at), node.input[1].clone()))
        .collect();
    for (node, weight) in convolutions {
        if changes.iter().any(|change| change.weight == weight) {
            continue;
        }
        let dims = graph.initializer.iter().find(|tensor| tensor.name == weight).map(|tensor| tensor.dims.clone());
        let of_convolutions =
            readers(graph, &weight).iter().all(|&(at, slot)| graph.node[at].op_type == "Conv" && slot == 1);
        let kept = match &dims {
            None => Some("it is computed in the model"),
            Some(dims) if dims.iter().skip(1).product::<i64>() < 2 => Some("a filter has one number"),
            Some(_) if !of_convolutions => Some("other nodes read it"),
            Some(_) => None,
        };
        if let (None, Some(dims)) = (kept, dims) {
            let own = |part: &str| format!("{weight}/Standardize/{part}");
            let axes: Vec<i64> = (1..dims.len() as i64).collect();
            // A filter of n values with mean square 1 has the norm √n.
            let length = dims.iter().skip(1).product::<i64>() as f32;
            let [along, tiny, root] = ["axes", "epsilon", "root"].map(own);
            let [mean, centred, square, variance, padded, deviation, normal, standard] =
                ["mean", "centred", "square", "variance", "padded", "deviation", "normal", "weight"].map(own);
            // Nodes, because a float initializer would be trained.
            let number = |name: &str, value: f32| {
                make_node(
                    "Constant",
                    name,
                    &[],
                    &[name],
                    vec![make_attr_tensor("value", make_tensor_f32("", &[], &[value]))],
                )
            };
            if axes_are_inputs {
                graph.initializer.push(make_tensor_i64(&along, &[axes.len()], &axes));
            }
            let average = |name: &str, x: &str, y: &str| {
                let keep = make_attr_int("keepdims", 1);
                match axes_are_inputs {
                    true => make_node("ReduceMean", &own(name), &[x, &along], &[y], vec![keep]),
                    false => make_node("ReduceMean", &own(name), &[x], &[y], vec![keep, make_attr_ints("axes", &axes)]),
                }
            };
            let step = |op: &str, name: &str, inputs: &[&str], y: &str| make_node(op, &own(name), inputs, &[y], vec![]);
            let nodes = [
                number(&tiny, EPSILON),
                number(&root, length.sqrt()),
                average("Mean", &weight, &mean),
                step("Sub", "Centre", &[&weight, &mean], &centred),
                step("Mul", "Square", &[&centred, &centred], &square),
                average("Variance", &square, &variance),
                step("Add", "Pad", &[&variance, &tiny], &padded),
                step("Sqrt", "Deviation", &[&padded], &deviation),
                step("Div", "Divide", &[&centred, &deviation], &normal),
                step("Div", "Scale", &[&normal, &root], &standard),
            ];
            for (at, slot) in readers(graph, &weight) {
                graph.node[at].input[slot].clone_from(&standard);
            }
            graph.node.splice(0..0, nodes);
        }
        changes.push(WeightChange { node, weight, kept });
    }
    if listed {
        list_new(graph, &before);
    }
    changes
}
