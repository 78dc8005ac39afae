//! Warnings about a graph and its loss before training. They never depend on data.

use crate::loss::source;
use crate::options::{DeriveOptions, Loss};
use damper_onnx::attr_int;
use damper_onnx::graph::{Graph, Node, Origin, ValueId};

/// Warnings about the parameters of `graph`, and about the input of the loss, one line each.
pub fn warnings(graph: &Graph, options: &DeriveOptions) -> Vec<String> {
    let mut lines = graph.warnings.clone();
    if let Ok((output, name)) = source(graph, options) {
        if !depends_on_data(graph, output) {
            lines.push(format!("output '{name}': constant, for it does not depend on the input; check the export"));
        }
        lines.extend(squashed(graph, output, options));
        let shape = &graph.value(output).shape;
        if options.loss == Loss::SoftmaxCrossEntropy && options.class_axis.is_none() && shape.last() == Some(&1) {
            lines.push(format!(
                "output '{name}': has one class, for which `loss` softmax-cross-entropy is 0 whatever the model predicts; use \
                 bce-with-logits or mse"
            ));
        }
    }
    lines
}

/// Returns true if `output` depends on the elements of an input.
fn depends_on_data(graph: &Graph, output: ValueId) -> bool {
    let mut depends = vec![false; graph.values.len()];
    for id in &graph.inputs {
        depends[id.0] = true;
    }
    for node in &graph.nodes {
        if node.inputs.iter().flatten().any(|id| depends[id.0]) {
            node.outputs.iter().for_each(|id| depends[id.0] = true);
        }
    }
    depends[output.0]
}

/// Function before the loss that a loss of logits also applies, as a message.
fn squashed(graph: &Graph, output: ValueId, options: &DeriveOptions) -> Option<String> {
    let (loss, own) = match options.loss {
        Loss::SoftmaxCrossEntropy => ("softmax-cross-entropy", "a softmax"),
        Loss::CausalLm => ("causal-lm", "a softmax"),
        Loss::Ctc => ("ctc", "a softmax"),
        Loss::BceWithLogits => ("bce-with-logits", "a sigmoid"),
        Loss::Mse | Loss::L1 | Loss::Huber | Loss::Output(_) => return None,
    };
    let node = last_function(graph, output)?;
    let is_squash = match (&*node.op, &options.loss) {
        // A second log-softmax over the same axis changes nothing.
        ("LogSoftmax", Loss::SoftmaxCrossEntropy | Loss::CausalLm | Loss::Ctc) => {
            !is_over_classes(graph, node, options)
        }
        ("Softmax" | "LogSoftmax" | "Sigmoid" | "HardSigmoid", _) => true,
        _ => false,
    };
    is_squash.then(|| {
        format!(
            "node '{}' ({}): feeds `loss` {loss}, which takes logits and applies {own} itself, so the model learns little; export \
             the model without this node",
            node.name, node.op
        )
    })
}

/// Node that computes `output`, ignoring changes of shape and type.
fn last_function(graph: &Graph, output: ValueId) -> Option<&Node> {
    let mut at = output;
    // Nodes are in topological order, so this terminates.
    loop {
        let Origin::Node { node, .. } = graph.value(at).origin else { return None };
        let node = &graph.nodes[node];
        match (&*node.op, node.inputs.first()) {
            ("Reshape" | "Transpose" | "Identity" | "Cast", Some(Some(from))) => at = *from,
            _ => return Some(node),
        }
    }
}

/// Returns true if `node` normalises over the class axis. A transposed output counts as another axis.
fn is_over_classes(graph: &Graph, node: &Node, options: &DeriveOptions) -> bool {
    let rank = graph.value(node.outputs[0]).shape.len() as i64;
    let from_end = |axis: i64| if axis < 0 { axis } else { axis - rank };
    from_end(attr_int(&node.attributes, "axis", -1)) == from_end(options.class_axis.unwrap_or(-1))
}
