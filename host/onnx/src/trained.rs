//! Writes trained parameters: the original graph with the trained initializers replaced.
//!
//! A parameter has one of four names:
//!
//! - the name of an initializer,
//! - the output of an `Identity` that reads an initializer, because an exporter merged equal values. The alias becomes
//!   an initializer, and the `Identity` is removed,
//! - the output of a `Constant` node,
//! - [`split_name`] of an initializer and one of its readers.

use std::collections::{BTreeMap, BTreeSet};

use super::node_name;
use super::pb::{GraphProto, ModelProto, TensorProto};
use super::scopes::unique_names;
use super::{attr_tensor, make_attr_tensor, make_tensor_f32};

/// Error of a parameter that does not fit the model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainedError {
    /// No initializer, alias or constant has this name.
    #[error("the model has no parameter '{0}': write the trained values into the model they were trained from")]
    Unknown(String),
    /// The number of values is wrong.
    #[error("parameter '{name}' has {expected} values in the model, but {found} were given: use the same model")]
    Length {
        /// Name of the parameter.
        name: String,
        /// Number of values in the model.
        expected: usize,
        /// Number of values given.
        found: usize,
    },
}

/// Name of the parameter that only node `node` reads, if an exporter merged equal initializers without a trace and
/// `initializer` has several readers.
pub fn split_name(initializer: &str, node: &str) -> String {
    format!("{initializer}::{node}")
}

/// Name and values.
type Param<'a> = (&'a str, &'a [f32]);

enum Place {
    Initializer(usize),
    /// Node whose output becomes the new initializer.
    Output(usize),
    /// Reads of initializer `.1` by node `.0`.
    Read(usize, String),
}

/// Replaces the values of `params` in the model. Everything else stays unchanged.
///
/// # Errors
/// [`TrainedError`] if a name is not a parameter of this model, or the number of values differs.
pub fn write_trained(model: &ModelProto, params: &[(&str, &[f32])]) -> Result<ModelProto, TrainedError> {
    let mut out = model.clone();
    let Some(graph) = out.graph.as_mut() else {
        return match params.first() {
            Some((name, _)) => Err(TrainedError::Unknown(name.to_string())),
            None => Ok(out),
        };
    };
    // The outer graph keeps its names. Names in subgraphs are made unique.
    let (outer, inner): (Vec<Param<'_>>, Vec<_>) = params.iter().partition(|(name, _)| locate(graph, name).is_some());
    if !inner.is_empty() {
        let mut named = graph.clone();
        unique_names(&mut named);
        for param in &inner {
            if !write_inner(graph, &named, param)? {
                return Err(TrainedError::Unknown(param.0.to_string()));
            }
        }
    }
    write_into(graph, &outer, model.ir_version < 4)?;
    Ok(out)
}

/// Writes a parameter to the subgraph that contains it. Returns false if none does. `named` is `graph` with unique
/// names.
fn write_inner(graph: &mut GraphProto, named: &GraphProto, param: &Param<'_>) -> Result<bool, TrainedError> {
    for (node, named) in graph.node.iter_mut().zip(&named.node) {
        for (own, named) in node.attribute.iter_mut().zip(&named.attribute) {
            let (Some(own), Some(named)) = (own.g.as_mut(), named.g.as_ref()) else { continue };
            if let Some((place, shape)) = locate(named, param.0) {
                let tensor = checked(param, &shape)?;
                match place {
                    Place::Initializer(at) => {
                        let name = std::mem::take(&mut own.initializer[at].name);
                        own.initializer[at] = TensorProto { name, ..tensor };
                    }
                    Place::Output(at) => {
                        // In place, so that the nodes of both graphs keep the same order.
                        let node = &mut own.node[at];
                        node.op_type = "Constant".into();
                        node.input.clear();
                        node.attribute = vec![make_attr_tensor("value", tensor)];
                    }
                    Place::Read(at, _) => {
                        let from = named.node[at]
                            .input
                            .iter()
                            .position(|input| split_name(input, &named.node[at].name) == param.0);
                        let Some(slot) = from else { return Ok(false) };
                        let from = own.node[at].input[slot].clone();
                        let inputs = own.node[at].input.iter_mut().filter(|input| **input == from);
                        inputs.for_each(|input| *input = param.0.to_owned());
                        own.initializer.push(tensor);
                    }
                }
                return Ok(true);
            }
            if write_inner(own, named, param)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn checked((name, values): &Param<'_>, shape: &[usize]) -> Result<TensorProto, TrainedError> {
    let expected = shape.iter().product::<usize>();
    if expected != values.len() {
        return Err(TrainedError::Length { name: name.to_string(), expected, found: values.len() });
    }
    Ok(make_tensor_f32(name, shape, values))
}

fn write_into(graph: &mut GraphProto, params: &[Param<'_>], is_listed: bool) -> Result<(), TrainedError> {
    let mut found = Vec::with_capacity(params.len());
    for param in params {
        let (place, shape) = locate(graph, param.0).ok_or_else(|| TrainedError::Unknown(param.0.to_string()))?;
        found.push((place, checked(param, &shape)?));
    }
    let mut gone = BTreeSet::new();
    let mut reads = BTreeMap::new();
    for (place, tensor) in found {
        match place {
            Place::Initializer(index) => {
                graph.initializer[index] = tensor;
                continue;
            }
            Place::Output(node) => {
                gone.insert(node);
            }
            Place::Read(node, from) => {
                reads.insert((node, from), tensor.name.clone());
            }
        }
        // Before IR version 4, an initializer is also an input.
        if is_listed {
            let shape: Vec<_> = tensor.dims.iter().map(|&d| super::Extent::Fixed(d as usize)).collect();
            graph.input.push(super::make_value_info(&tensor.name, super::DType::F32, &shape));
        }
        graph.initializer.push(tensor);
    }
    for ((node, from), to) in reads {
        graph.node[node].input.iter_mut().filter(|input| **input == from).for_each(|input| *input = to.clone());
    }
    let nodes = std::mem::take(&mut graph.node);
    graph.node = nodes.into_iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, node)| node).collect();
    Ok(())
}

fn locate(graph: &GraphProto, name: &str) -> Option<(Place, Vec<usize>)> {
    let shape = |tensor: &TensorProto| tensor.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>();
    let by_name = |name: &str| graph.initializer.iter().position(|tensor| tensor.name == name);
    if let Some(index) = by_name(name) {
        return Some((Place::Initializer(index), shape(&graph.initializer[index])?));
    }
    let producer = |name: &str| graph.node.iter().position(|node| node.output.iter().any(|output| output == name));
    if let Some(node) = producer(name) {
        // Follows chains of `Identity`. The number of nodes bounds their length.
        let mut at = node;
        for _ in 0..=graph.node.len() {
            let origin = &graph.node[at];
            match origin.op_type.as_str() {
                "Constant" => {
                    return Some((Place::Output(node), shape(attr_tensor(&origin.attribute, "value")?)?));
                }
                "Identity" => {
                    let from = origin.input.first()?;
                    if let Some(index) = by_name(from) {
                        return Some((Place::Output(node), shape(&graph.initializer[index])?));
                    }
                    at = producer(from)?;
                }
                _ => return None,
            }
        }
        return None;
    }
    graph.node.iter().enumerate().find_map(|(index, node)| {
        let from = node.input.iter().find(|input| split_name(input, &node_name(node, index)) == name)?;
        let initializer = by_name(from)?;
        Some((Place::Read(index, from.clone()), shape(&graph.initializer[initializer])?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{make_node, pb::NodeProto};

    fn model(node: Vec<NodeProto>) -> ModelProto {
        let initializer = vec![make_tensor_f32("w", &[2], &[1.0, 1.0])];
        ModelProto {
            ir_version: 8,
            graph: Some(GraphProto { node, initializer, ..GraphProto::default() }),
            ..ModelProto::default()
        }
    }

    fn values(model: &ModelProto, name: &str) -> Option<Vec<f32>> {
        let tensor = model.graph.as_ref()?.initializer.iter().find(|t| t.name == name)?;
        Some(super::super::decode_tensor(tensor).ok()?.as_f32()?.to_vec())
    }

    // A trained alias becomes its own initializer, and its Identity node is removed.
    #[test]
    fn alias_becomes_own_initializer() {
        let original = model(vec![
            make_node("Identity", "i", &["w"], &["v"], vec![]),
            make_node("Mul", "m", &["w", "v"], &["y"], vec![]),
        ]);
        let out = write_trained(&original, &[("w", &[2.0, 3.0]), ("v", &[4.0, 5.0])]).unwrap();
        assert_eq!(values(&out, "w"), Some(vec![2.0, 3.0]));
        assert_eq!(values(&out, "v"), Some(vec![4.0, 5.0]));
        let ops: Vec<_> = out.graph.unwrap().node.iter().map(|node| node.op_type.clone()).collect();
        assert_eq!(ops, ["Mul"]);
    }

    // A trained Constant node becomes an initializer.
    #[test]
    fn trained_constant_becomes_initializer() {
        let value = make_attr_tensor("value", make_tensor_f32("", &[2], &[0.0, 0.0]));
        let original = model(vec![
            make_node("Constant", "c", &[], &["k"], vec![value]),
            make_node("Mul", "m", &["w", "k"], &["y"], vec![]),
        ]);
        let out = write_trained(&original, &[("k", &[4.0, 5.0])]).unwrap();
        assert_eq!(values(&out, "k"), Some(vec![4.0, 5.0]));
        assert_eq!(out.graph.unwrap().node.len(), 1);
    }

    // A split use gets its own initializer.
    #[test]
    fn split_read_gets_own_initializer() {
        let original = model(vec![
            make_node("Mul", "first", &["x", "w"], &["h"], vec![]),
            make_node("Mul", "second", &["h", "w"], &["y"], vec![]),
        ]);
        let out = write_trained(&original, &[("w::second", &[4.0, 5.0])]).unwrap();
        assert_eq!(values(&out, "w"), Some(vec![1.0, 1.0]));
        assert_eq!(values(&out, "w::second"), Some(vec![4.0, 5.0]));
        let graph = out.graph.unwrap();
        assert_eq!(graph.node[0].input, ["x", "w"]);
        assert_eq!(graph.node[1].input, ["h", "w::second"]);
    }

    // A name or a length of another model is an error.
    #[test]
    fn foreign_name_or_length_is_error() {
        let original = model(vec![]);
        assert_eq!(write_trained(&original, &[("u", &[1.0])]), Err(TrainedError::Unknown("u".into())));
        let length = TrainedError::Length { name: "w".into(), expected: 2, found: 1 };
        assert_eq!(write_trained(&original, &[("w", &[1.0])]), Err(length));
    }
}
