//! Advice on the layers that can be trained in a model with an operator that has no gradient.

use super::super::parameter::glob;
use super::super::{GraphError, GraphOptions, parameter};
use super::dependence::{Dependence, Trained, is_in, names_read};
use super::operators::has_rule;
use super::random::is_random;
use crate::pb::{GraphProto, NodeProto};
use std::collections::HashSet;

/// Maximum number of patterns in a message.
const MOST: usize = 4;

/// Adds to `error` the parameters after its node, if they can be trained alone. `graph` has the form that the rules
/// support.
pub(in super::super) fn advised(error: GraphError, graph: &GraphProto, options: &GraphOptions) -> GraphError {
    let (GraphError::Unsupported { node, .. } | GraphError::Refused { node, .. }) = &error else { return error };
    let Ok(decisions) = parameter::decide(graph, options) else { return error };
    let all: Vec<String> = decisions.floats.iter().map(|float| float.name.clone()).collect();
    let trained = Trained::of(graph, decisions);
    let dependence = Dependence::of(graph, &trained);
    let is_at = |at: usize| is_in(node, &graph.node[at]);
    // Branches and loops that are still here may be inlined later.
    let is_open = |node: &NodeProto| matches!(node.op_type.as_str(), "If" | "Loop" | "DequantizeLinear");
    let has_none = |at: usize| {
        let node = &graph.node[at];
        dependence.is_data[at] && !has_rule(node) && !is_open(node)
    };
    let last: Vec<usize> = (0..graph.node.len()).filter(|at| is_at(*at) || has_none(*at)).collect();
    if last.iter().any(|at| is_random(&graph.node[*at].domain, &graph.node[*at].op_type)) {
        return error;
    }
    let before = before(graph, &last);
    let after: Vec<&String> = trained.names.iter().filter(|name| !before.contains(name.as_str())).collect();
    // If no trained parameter comes before it, it is not in the way of the gradient.
    if after.is_empty() || after.len() == trained.names.len() {
        return error;
    }
    let patterns = patterns(&after, &all);
    GraphError::PartlyTrainable { error: Box::new(error), only: listed(&patterns) }
}

/// Names of the values and nodes that the nodes `last` depend on.
fn before<'a>(graph: &'a GraphProto, last: &[usize]) -> HashSet<&'a str> {
    let mut before = HashSet::new();
    for (at, node) in graph.node.iter().enumerate().rev() {
        if last.contains(&at) || node.output.iter().any(|name| before.contains(name.as_str())) {
            before.extend(names_read(node));
        }
    }
    before
}

/// Patterns that match `names` and no other name of `all`: the shortest module that has only such names, or the name.
fn patterns(names: &[&String], all: &[String]) -> Vec<String> {
    let is_alone = |pattern: &String| {
        let one = std::slice::from_ref(pattern);
        all.iter().filter(|name| glob::any(one, name)).all(|name| names.contains(&name))
    };
    let mut patterns: Vec<String> = vec![];
    for name in names {
        if glob::any(&patterns, name) {
            continue;
        }
        let modules = name.match_indices('.').map(|(at, _)| format!("{}.*", &name[..at]));
        patterns.push(modules.into_iter().find(is_alone).unwrap_or_else(|| (*name).clone()));
    }
    patterns
}

fn listed(patterns: &[String]) -> String {
    let shown: Vec<String> = patterns.iter().take(MOST).map(|pattern| format!("`only` '{pattern}'")).collect();
    match patterns.len().saturating_sub(MOST) {
        0 => shown.join(" "),
        more => format!("{} and {more} more that damper inspect lists", shown.join(" ")),
    }
}
