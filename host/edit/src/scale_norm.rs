//! ScaleNorm (Klause et al., arXiv 2203.00324): a normalisation after the sum of each residual block. It keeps the
//! scale of the values from growing with the number of blocks. It has no parameters and works on single samples.

use super::rewrite::{group_norm, list_new, usual_groups};
use damper_onnx::graph::{Graph, GraphError, GraphOptions, Node};
use damper_onnx::pb::ModelProto;
use damper_onnx::{make_node, node_name};
use std::collections::HashSet;

const EPSILON: f32 = 1e-5;

/// Sum of two branches that is now followed by a normalisation, or the reason why it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScaleChange {
    /// Node name of the `Add`.
    pub node: String,
    /// Groups and channels of its normalisation.
    pub to: Result<(usize, usize), &'static str>,
}

/// Normalises every sum of two branches `[N, C, H, W]` of `model`, in groups of channels like a GroupNorm. The outputs
/// change. Returns a change for each sum, in the order of the nodes.
///
/// # Errors
///
/// [`GraphError`] if the shapes of the model's values are unknown.
pub fn add_scale_norms(model: &mut ModelProto, options: &GraphOptions) -> Result<Vec<ScaleChange>, GraphError> {
    let typed = Graph::from_model(model, options)?;
    let listed = model.ir_version < 4;
    let Some(graph) = model.graph.as_mut() else { return Ok(vec![]) };
    let before: HashSet<String> = graph.initializer.iter().map(|tensor| tensor.name.clone()).collect();
    let outputs: HashSet<String> = graph.output.iter().map(|output| output.name.clone()).collect();
    let mut changes = Vec::new();
    let mut at = 0;
    while at < graph.node.len() {
        let node = &graph.node[at];
        let sum = node.output.first().cloned().unwrap_or_default();
        let branch = |name: &String| typed.find(name).map(|id| typed.value(id)).filter(|value| value.batch.is_some());
        let shapes: Vec<_> = node.input.iter().filter_map(branch).map(|value| value.shape.clone()).collect();
        at += 1;
        let [first, second] = &shapes[..] else { continue };
        if node.op_type != "Add" || first != second || first.len() != 4 {
            continue;
        }
        let (name, channels) = (node_name(node, at - 1), first[1]);
        let to = if outputs.contains(&sum) {
            Err("it is an output")
        } else if reaches_norm(&typed, &sum) {
            Err("a normalisation follows")
        } else {
            let plain = format!("{name}/sum");
            graph.node[at - 1].output[0].clone_from(&plain);
            let groups = usual_groups(channels);
            let (mut nodes, normed) = group_norm(graph, &name, &plain, groups, EPSILON);
            let shape = format!("{name}/GroupNorm/shape");
            nodes.push(make_node("Shape", &format!("{name}/GroupNorm/Shape"), &[&plain], &[&shape], vec![]));
            nodes.push(make_node("Reshape", &format!("{name}/GroupNorm/Restore"), &[&normed, &shape], &[&sum], vec![]));
            let added = nodes.len();
            graph.node.splice(at..at, nodes);
            at += added;
            Ok((groups, channels))
        };
        changes.push(ScaleChange { node: name, to });
    }
    if listed {
        list_new(graph, &before);
    }
    Ok(changes)
}

/// Returns true if each reader of `value` is a normalisation, directly or after a Reshape.
fn reaches_norm(graph: &Graph, value: &str) -> bool {
    let consumers = graph.consumers();
    let normalises = |node: &Node| node.op.ends_with("Normalization");
    let all = |id: usize, test: &dyn Fn(&Node) -> bool| {
        !consumers[id].is_empty() && consumers[id].iter().all(|&(node, _)| test(&graph.nodes[node]))
    };
    let reshaped = |node: &Node| node.op == "Reshape" && node.outputs.first().is_some_and(|id| all(id.0, &normalises));
    graph.find(value).is_some_and(|id| all(id.0, &|node| node.op == "Shape" || normalises(node) || reshaped(node)))
}
