//! Names in the subgraphs of branches and loops.

use crate::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use crate::{attr_tensor, make_attr_tensor, make_node, node_name};
use std::collections::{HashMap, HashSet};

/// Maximum depth of subgraphs. Deeper subgraphs stay unchanged and are an error if read.
pub(crate) const DEEPEST: usize = 32;

/// Subgraphs of a node.
pub(crate) fn inner(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().filter_map(|attribute| attribute.g.as_ref())
}

/// Mutable version of [`inner`].
pub(crate) fn inner_mut(node: &mut NodeProto) -> impl Iterator<Item = &mut GraphProto> {
    node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut())
}

/// Returns true if a node of `graph` has a subgraph.
pub(crate) fn has_branches(graph: &GraphProto) -> bool {
    graph.node.iter().any(|node| inner(node).next().is_some())
}

/// Makes all names in the model unique: renames values with equal names in two subgraphs, and names every node. Names
/// in the outer graph and names that are already unique stay. The order of all lists stays.
pub fn unique_names(graph: &mut GraphProto) {
    for (index, node) in graph.node.iter_mut().enumerate() {
        node.name = node_name(node, index);
    }
    if !has_branches(graph) {
        return;
    }
    let mut taken: HashSet<String> = given(graph).cloned().collect();
    let mut nodes: HashSet<String> = graph.node.iter().map(|node| node.name.clone()).collect();
    for node in &mut graph.node {
        let owner = node.name.clone();
        for inner in inner_mut(node) {
            rename_inner(inner, &owner, &mut taken, &mut nodes, &HashMap::new(), 1);
        }
    }
}

/// `Constant` node with the value `tensor` and its name.
pub(crate) fn constant(tensor: TensorProto) -> NodeProto {
    let name = tensor.name.clone();
    make_node("Constant", &name, &[], &[&name], vec![make_attr_tensor("value", tensor)])
}

/// Names that a graph defines.
pub(crate) fn given(graph: &GraphProto) -> impl Iterator<Item = &String> {
    let inputs = graph.input.iter().map(|input| &input.name);
    let tensors = graph.initializer.iter().map(|tensor| &tensor.name);
    inputs.chain(tensors).chain(graph.node.iter().flat_map(|node| &node.output)).filter(|name| !name.is_empty())
}

/// Names that a graph and its subgraphs define.
pub(crate) fn all_names(graph: &GraphProto) -> HashSet<String> {
    let mut names: HashSet<String> = given(graph).cloned().collect();
    for inner in graph.node.iter().flat_map(inner) {
        names.extend(all_names(inner));
    }
    names
}

fn rename_inner(
    graph: &mut GraphProto,
    owner: &str,
    taken: &mut HashSet<String>,
    nodes: &mut HashSet<String>,
    outer: &HashMap<String, String>,
    depth: usize,
) {
    if depth > DEEPEST {
        return;
    }
    let mut renamed = outer.clone();
    let mut own: HashSet<&String> = HashSet::new();
    let mut fresh: Vec<(String, String)> = Vec::new();
    for name in given(graph) {
        if !own.insert(name) {
            continue;
        }
        let mut called = name.clone();
        while !taken.insert(called.clone()) {
            called = format!("{owner}/{called}");
        }
        fresh.push((name.clone(), called));
    }
    renamed.extend(fresh);
    let rename = |name: &mut String| {
        if let Some(called) = renamed.get(name) {
            name.clone_from(called);
        }
    };
    graph.input.iter_mut().chain(&mut graph.output).for_each(|info| rename(&mut info.name));
    graph.initializer.iter_mut().for_each(|tensor| rename(&mut tensor.name));
    graph.value_info.clear();
    for (index, node) in graph.node.iter_mut().enumerate() {
        node.input.iter_mut().chain(&mut node.output).for_each(rename);
        node.name = node_name(node, index);
        while !nodes.insert(node.name.clone()) {
            node.name = format!("{owner}/{}", node.name);
        }
        let owner = node.name.clone();
        for inner in inner_mut(node) {
            rename_inner(inner, &owner, taken, nodes, &renamed, depth + 1);
        }
    }
}

/// Renames values in `graph` and its subgraphs.
pub(crate) fn rename(graph: &mut GraphProto, names: &HashMap<String, String>) {
    let rename_one = |name: &mut String| {
        if let Some(called) = names.get(name) {
            name.clone_from(called);
        }
    };
    graph.output.iter_mut().chain(&mut graph.input).for_each(|info| rename_one(&mut info.name));
    graph.initializer.iter_mut().for_each(|tensor| rename_one(&mut tensor.name));
    for node in &mut graph.node {
        node.input.iter_mut().chain(&mut node.output).for_each(rename_one);
        inner_mut(node).for_each(|inner| rename(inner, names));
    }
}

/// Makes every reader of `from`, in `graph` and its subgraphs, read `to`.
pub(crate) fn redirect(graph: &mut GraphProto, from: &str, to: &str) {
    for node in &mut graph.node {
        node.input.iter_mut().filter(|input| *input == from).for_each(|input| *input = to.to_owned());
        inner_mut(node).for_each(|inner| redirect(inner, from, to));
    }
    graph.output.iter_mut().filter(|output| output.name == from).for_each(|output| output.name = to.to_owned());
}

/// Tensors of a model: its initializers, and those of its subgraphs and their constants, named as after
/// [`unique_names`].
pub fn stored_tensors(model: &ModelProto) -> Vec<(String, &TensorProto)> {
    let Some(graph) = &model.graph else { return vec![] };
    let mut found: Vec<_> = graph.initializer.iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
    if has_branches(graph) {
        let mut named = graph.clone();
        unique_names(&mut named);
        stored_inside(graph, &named, &mut found);
    }
    found
}

fn stored_inside<'a>(graph: &'a GraphProto, named: &GraphProto, found: &mut Vec<(String, &'a TensorProto)>) {
    let inside = |(node, named): (&'a NodeProto, &NodeProto)| -> Vec<(&'a GraphProto, GraphProto)> {
        inner(node).zip(inner(named).cloned()).collect()
    };
    for (own, named) in graph.node.iter().zip(&named.node).flat_map(inside) {
        let stored = own.initializer.iter().zip(&named.initializer);
        found.extend(stored.map(|(tensor, named)| (named.name.clone(), tensor)));
        for (node, named) in own.node.iter().zip(&named.node).filter(|(node, _)| node.op_type == "Constant") {
            let value = attr_tensor(&node.attribute, "value");
            found.extend(value.zip(named.output.first()).map(|(tensor, name)| (name.clone(), tensor)));
        }
        stored_inside(own, &named, found);
    }
}
