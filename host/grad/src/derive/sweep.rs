//! Reverse sweep over the nodes.

use crate::backward::{BackwardContext, accumulate};
use crate::broadcast::unbroadcast;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::factor::Grad;
use crate::rules::{RULES, has_nonzero_derivative};
use damper_onnx::graph::{Graph, ValueId};

/// Gradients of the weighted outputs in `seeds`, by parameter index. `None` for a parameter that they do not depend on.
///
/// `forward` contains the emitted tensor of each value.
pub fn sweep(
    em: &mut Emitter,
    graph: &Graph,
    forward: &[Option<Var>],
    seeds: Vec<(ValueId, Var)>,
) -> Result<Vec<Option<Grad>>, DeriveError> {
    let wanted = leads_to_trained(graph);
    let mut grads: Vec<Option<Grad>> = vec![None; graph.values.len()];
    for (value, seed) in seeds {
        if wanted[value.0] {
            let seed = unbroadcast(em, &seed, &graph.values[value.0]);
            accumulate(em, &mut grads, value, Grad::Dense(seed));
        }
    }
    for node in graph.nodes.iter().rev() {
        let reached = node.outputs.iter().any(|o| grads[o.0].is_some());
        if !reached || !node.inputs.iter().flatten().any(|i| wanted[i.0]) {
            continue;
        }
        let rule = RULES.iter().find(|r| r.op == node.op).ok_or_else(|| DeriveError::no_rule(node))?;
        (rule.backward)(&mut BackwardContext::new(em, graph, node, forward, &wanted, &mut grads))?;
    }
    Ok(graph.parameters.iter().map(|p| if p.trained { grads[p.value.0].take() } else { None }).collect())
}

/// For each value, true if it depends on a trained parameter through more than steps and integers.
fn leads_to_trained(graph: &Graph) -> Vec<bool> {
    let mut wanted = vec![false; graph.values.len()];
    for parameter in graph.parameters.iter().filter(|p| p.trained) {
        wanted[parameter.value.0] = true;
    }
    for node in &graph.nodes {
        if has_nonzero_derivative(&node.op) && node.inputs.iter().flatten().any(|i| wanted[i.0]) {
            for output in &node.outputs {
                wanted[output.0] = graph.values[output.0].dtype.is_float();
            }
        }
    }
    wanted
}
