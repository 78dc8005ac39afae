//! Inlines statically known control flow: the nodes of branches and loops replace `If` and `Loop`.
//!
//! A malicious file may nest loops to any number of nodes, so the number is limited.

use super::super::GraphError;
use crate::pb::{GraphProto, NodeProto};
use crate::scopes::{all_names, constant, inner, inner_mut, rename};
use crate::{Tensor, TensorData};
use crate::{find_attr, make_attr_int, make_node, make_tensor, make_tensor_i64};
use std::collections::{HashMap, HashSet};

/// Maximum number of nodes after inlining.
const MAX_NODES: usize = 1 << 16;

/// Maximum number of iterations of an inlined loop.
pub(in super::super) const MAX_ROUNDS: i64 = 1024;

/// Statically known control flow of an `If` or a `Loop`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Flow {
    /// The `If` with this first output takes this branch.
    Branch(String, bool),
    /// The `Loop` with this first output runs this many iterations, regardless of its condition.
    Rounds(String, usize),
}

/// Inlines the nodes of one branch, or of all iterations of a loop, into `graph`.
///
/// # Errors
/// [`GraphError`] if the node has no subgraph, its outputs do not fit, or there would be too many nodes.
pub(in super::super) fn inline(graph: &mut GraphProto, flow: Flow) -> Result<(), GraphError> {
    let (Flow::Branch(output, _) | Flow::Rounds(output, _)) = &flow;
    let Some(at) = graph.node.iter().position(|node| node.output.first() == Some(output)) else {
        return Err(GraphError::Model(format!("no node computes '{output}'; check the model with onnx.checker")));
    };
    let nodes = match flow {
        Flow::Branch(_, taken) => branch(graph, at, taken)?,
        Flow::Rounds(_, rounds) => unrolled(graph, at, rounds)?,
    };
    graph.node.splice(at..=at, nodes);
    Ok(())
}

fn invalid(node: &NodeProto, reason: impl Into<String>) -> GraphError {
    GraphError::Invalid { node: node.name.clone(), op: node.op_type.clone(), reason: reason.into() }
}

/// Number of nodes of a graph, including its subgraphs.
fn count(graph: &GraphProto) -> usize {
    graph.node.iter().map(|node| 1 + inner(node).map(count).sum::<usize>()).sum()
}

fn check_size(graph: &GraphProto, node: &NodeProto, more: usize) -> Result<(), GraphError> {
    if count(graph).saturating_add(more) > MAX_NODES {
        return Err(invalid(node, format!("more than {MAX_NODES} nodes would come of it")));
    }
    Ok(())
}

fn body<'a>(node: &'a NodeProto, attribute: &str) -> Result<&'a GraphProto, GraphError> {
    find_attr(&node.attribute, attribute)
        .and_then(|attribute| attribute.g.as_ref())
        .ok_or_else(|| invalid(node, format!("it has no {attribute}")))
}

fn identity(from: &str, to: &str) -> NodeProto {
    make_node("Identity", &format!("{to}/of_branch"), &[from], &[to], vec![])
}

fn branch(graph: &mut GraphProto, at: usize, taken: bool) -> Result<Vec<NodeProto>, GraphError> {
    let node = graph.node[at].clone();
    let mut body = body(&node, if taken { "then_branch" } else { "else_branch" })?.clone();
    check_size(graph, &node, 0)?;
    if body.output.len() != node.output.len() {
        return Err(invalid(
            &node,
            format!("its branch has {} outputs for its {}", body.output.len(), node.output.len()),
        ));
    }
    take_initializers(graph, &mut body);
    let mut nodes = body.node;
    let outputs = body.output.iter().zip(&node.output).filter(|(_, to)| !to.is_empty());
    nodes.extend(outputs.map(|(from, to)| identity(&from.name, to)));
    Ok(nodes)
}

fn unrolled(graph: &mut GraphProto, at: usize, rounds: usize) -> Result<Vec<NodeProto>, GraphError> {
    let node = graph.node[at].clone();
    let mut body = body(&node, "body")?.clone();
    check_size(graph, &node, count(&body).saturating_mul(rounds))?;
    let carried = node.input.len().saturating_sub(2);
    if body.input.len() != carried + 2 || body.output.len() != node.output.len() + 1 || node.output.len() < carried {
        return Err(invalid(&node, "its body does not fit its inputs and outputs"));
    }
    let scans = node.output.len() - carried;
    if scans > 0 && rounds == 0 {
        return Err(invalid(&node, "it gathers the results of no round"));
    }
    // Weights are the same in every iteration.
    take_initializers(graph, &mut body);
    let mark = free_mark(graph, &node.name);
    let mut names: Vec<String> = node.input[2..].to_vec();
    let mut gathered: Vec<Vec<String>> = vec![Vec::new(); scans];
    let mut nodes = Vec::new();
    let [number, truth] = ["number", "condition"].map(|part| format!("{}{mark}{part}", node.name));
    nodes.push(constant(make_tensor(&truth, &Tensor { shape: vec![], data: TensorData::Bool(vec![true]) })));
    for round in 0..rounds {
        let number = format!("{number}_{round}");
        nodes.push(constant(make_tensor_i64(&number, &[], &[round as i64])));
        let mut called: HashMap<String, String> =
            inner_names(&body).into_iter().map(|name| (name.clone(), format!("{name}{mark}{round}"))).collect();
        let given = [&number, &truth].into_iter().chain(&names).cloned();
        called.extend(body.input.iter().map(|input| input.name.clone()).zip(given));
        let mut copy = body.clone();
        rename(&mut copy, &called);
        rename_nodes(&mut copy, &format!("{mark}{round}"));
        nodes.append(&mut copy.node);
        let outputs: Vec<String> = copy.output.iter().skip(1).map(|output| output.name.clone()).collect();
        for (scan, (all, name)) in gathered.iter_mut().zip(&outputs[carried..]).enumerate() {
            let part = format!("{}{mark}scan_{scan}_{round}", node.name);
            let axis = format!("{part}_axis");
            nodes.push(constant(make_tensor_i64(&axis, &[1], &[0])));
            nodes.push(make_node("Unsqueeze", &part, &[name, &axis], &[&part], vec![]));
            all.push(part);
        }
        names = outputs[..carried].to_vec();
    }
    let outputs = names.iter().zip(&node.output).filter(|(_, to)| !to.is_empty());
    nodes.extend(outputs.map(|(from, to)| identity(from, to)));
    for (all, to) in gathered.iter().zip(&node.output[carried..]).filter(|(_, to)| !to.is_empty()) {
        let parts: Vec<&str> = all.iter().map(String::as_str).collect();
        nodes.push(make_node("Concat", &format!("{to}/gathered"), &parts, &[to], vec![make_attr_int("axis", 0)]));
    }
    Ok(nodes)
}

/// Moves the weights of a body to `graph`. They are the same in every copy of the body.
fn take_initializers(graph: &mut GraphProto, body: &mut GraphProto) {
    let known: HashSet<String> = graph.initializer.iter().map(|tensor| tensor.name.clone()).collect();
    graph.initializer.extend(body.initializer.drain(..).filter(|tensor| !known.contains(&tensor.name)));
}

/// Separator between a name and an iteration number, such that `graph` has no name of this form.
fn free_mark(graph: &GraphProto, node: &str) -> String {
    let names = all_names(graph);
    let is_taken = |mark: &str, name: &String| {
        let numbered = name.rsplit_once(mark).is_some_and(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
        numbered || name.starts_with(&format!("{node}{mark}"))
    };
    let mut mark = String::from("/");
    while names.iter().any(|name| is_taken(&mark, name)) {
        mark.push('/');
    }
    mark
}

fn rename_nodes(graph: &mut GraphProto, end: &str) {
    for node in &mut graph.node {
        node.name.push_str(end);
        inner_mut(node).for_each(|inner| rename_nodes(inner, end));
    }
}

/// Names of the outputs in `graph` and its subgraphs. Weights are the same in every iteration.
fn inner_names(graph: &GraphProto) -> HashSet<String> {
    let mut names: HashSet<String> = HashSet::new();
    for node in &graph.node {
        names.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
        for inner in inner(node) {
            names.extend(inner.input.iter().map(|input| input.name.clone()));
            names.extend(inner_names(inner));
        }
    }
    names
}
