//! Dependence of nodes on data and on trained parameters.

use super::super::GraphOptions;
use super::super::parameter::Decisions;
use crate::pb::{GraphProto, NodeProto};
use crate::scopes::{all_names, inner};
use std::collections::{HashMap, HashSet};

/// Trained parameters of a model.
pub(super) struct Trained {
    /// Names, including those of parameters that were split off for a reader.
    pub names: Vec<String>,
    /// Names of the nodes that read a parameter of another name.
    readers: HashMap<String, String>,
    /// Reason for each decision.
    pub reasons: HashMap<String, String>,
    /// Warnings about the decisions.
    pub warnings: Vec<String>,
}

impl Trained {
    /// Takes the trained parameters from the decisions on `graph`.
    pub fn of(graph: &GraphProto, decisions: Decisions) -> Self {
        let trained = decisions.floats.iter().filter(|float| float.trained).map(|float| float.name.clone());
        let names: Vec<String> = trained.collect();
        let split = |((node, _), name): ((usize, String), String)| (graph.node[node].name.clone(), name);
        let readers = decisions.splits.into_iter().map(split).filter(|(_, name)| names.contains(name)).collect();
        let reasons = decisions.floats.into_iter().map(|float| (float.name, float.reason)).collect();
        Self { names, readers, reasons, warnings: decisions.warnings }
    }

    /// Returns true if `graph` has all of them. It may lack those of unrolled loops.
    pub fn are_all_in(&self, graph: &GraphProto) -> bool {
        let known = all_names(graph);
        let is_split = |name: &String| self.readers.values().any(|split| split == name);
        !self.names.is_empty() && self.names.iter().all(|name| known.contains(name) || is_split(name))
    }

    /// Options that train exactly these parameters in a part of the model with bound inputs.
    pub fn options(&self, given: &GraphOptions) -> GraphOptions {
        let [mut only, mut parameter] = [vec![], vec![]];
        let names = if given.parameter.is_empty() { &mut only } else { &mut parameter };
        names.clone_from(&self.names);
        let (tie, untie, output) = (given.tie.clone(), given.untie.clone(), given.output.clone());
        GraphOptions { only, parameter, tie, untie, output, ..GraphOptions::default() }
    }
}

/// Dependence of each node of a graph.
pub(super) struct Dependence {
    /// It depends on the samples.
    pub is_data: Vec<bool>,
    /// It depends on a trained parameter.
    pub is_trained: Vec<bool>,
    /// It depends on the samples only by the sizes of values.
    pub is_of_sizes: Vec<bool>,
}

impl Dependence {
    /// Follows the names that each node of `graph` reads. Nodes are in topological order.
    pub fn of(graph: &GraphProto, trained: &Trained) -> Self {
        let stored: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = graph.input.iter().map(|input| input.name.as_str());
        let mut data: HashSet<&str> = inputs.filter(|name| !stored.contains(name)).collect();
        let mut of_trained: HashSet<&str> = trained.names.iter().map(String::as_str).collect();
        let mut sizes: HashSet<&str> = HashSet::new();
        let (mut is_data, mut is_trained, mut is_of_sizes) = (vec![], vec![], vec![]);
        for node in &graph.node {
            let read = names_read(node);
            let outputs = || node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
            let is_alias = outputs().any(|name| of_trained.contains(name));
            let depends = |on: &HashSet<&str>| read.iter().any(|name| on.contains(name));
            let reads_data = depends(&data);
            let reads_trained = is_alias || depends(&of_trained) || trained.readers.contains_key(&node.name);
            let counts = matches!(node.op_type.as_str(), "Shape" | "Size");
            let only_sizes = || read.iter().filter(|name| data.contains(**name)).all(|name| sizes.contains(name));
            let reads_sizes = reads_data && inner(node).next().is_none() && (counts || only_sizes());
            if reads_data {
                data.extend(outputs());
            }
            if reads_trained {
                of_trained.extend(outputs());
            }
            if reads_sizes {
                sizes.extend(outputs());
            }
            is_data.push(reads_data);
            is_trained.push(reads_trained);
            is_of_sizes.push(reads_sizes);
        }
        Self { is_data, is_trained, is_of_sizes }
    }
}

/// Names that `node` reads, and all names in its subgraphs.
pub(super) fn names_read(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    for graph in inner(node) {
        names.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
        names.extend(graph.output.iter().map(|output| output.name.as_str()));
        for node in &graph.node {
            names.extend(node.output.iter().map(String::as_str));
            names.extend(names_read(node));
        }
    }
    names
}

/// Returns true if `node`, or a node of its subgraphs, is called `name`.
pub(super) fn is_in(name: &str, node: &NodeProto) -> bool {
    node.name == name || inner(node).flat_map(|graph| &graph.node).any(|node| is_in(name, node))
}
