//! Renaming of initializers, and notes on them.

use std::collections::HashSet;

use crate::pb::{GraphProto, StringStringEntryProto, ValueInfoProto};
use crate::scopes::given;
use crate::{DType, Extent, make_value_info};

/// Metadata key for the name of an initializer in the exported file.
pub(super) const STORED_AS: &str = "damper.stored_as";

/// Initializers with names of the source: these names, and the names in the exported file.
pub fn stored(graph: &GraphProto) -> impl Iterator<Item = (&str, &str)> {
    let initializers: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let infos = graph.value_info.iter().filter(move |info| initializers.contains(info.name.as_str()));
    infos.filter_map(|info| Some((info.name.as_str(), stored_as(info)?)))
}

fn stored_as(info: &ValueInfoProto) -> Option<&str> {
    info.metadata_props.iter().find(|entry| entry.key == STORED_AS).map(|entry| entry.value.as_str())
}

/// Adds a metadata entry for the float initializer `name`.
pub fn note(graph: &mut GraphProto, name: &str, key: &str, value: &str) {
    let entry = StringStringEntryProto { key: key.into(), value: value.into() };
    let info = match graph.value_info.iter_mut().position(|info| info.name == name) {
        Some(at) => &mut graph.value_info[at],
        None => {
            let dims =
                graph.initializer.iter().find(|tensor| tensor.name == name).map_or(&[][..], |tensor| &tensor.dims);
            let shape: Vec<Extent> = dims.iter().map(|&extent| Extent::Fixed(extent as usize)).collect();
            graph.value_info.push(make_value_info(name, DType::F32, &shape));
            let last = graph.value_info.len() - 1;
            &mut graph.value_info[last]
        }
    };
    info.metadata_props.retain(|other| other.key != key);
    info.metadata_props.push(entry);
}

/// Renames an initializer everywhere, and records its name in the file.
pub fn rename(graph: &mut GraphProto, from: &str, to: &str) {
    let known = graph.value_info.iter().find(|info| info.name == from).and_then(stored_as);
    let stored = known.unwrap_or(from).to_string();
    for tensor in graph.initializer.iter_mut().filter(|tensor| tensor.name == from) {
        tensor.name = to.into();
    }
    let infos = graph.value_info.iter_mut().chain(&mut graph.input);
    for info in infos.filter(|info| info.name == from) {
        info.name = to.into();
    }
    for node in &mut graph.node {
        node.input.iter_mut().filter(|input| **input == from).for_each(|input| *input = to.into());
    }
    note(graph, to, STORED_AS, &stored);
}

/// Returns true if a value of the graph has this name.
pub fn is_taken(graph: &GraphProto, name: &str) -> bool {
    given(graph).chain(graph.output.iter().map(|output| &output.name)).any(|taken| taken == name)
}
