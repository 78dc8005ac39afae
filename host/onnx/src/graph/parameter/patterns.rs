//! Patterns that use an initializer's name in the exported file.

use super::{GraphOptions, glob};
use crate::pb::GraphProto;
use crate::source::stored;

/// Extends `options`: a pattern that matches names of the file (`val_0`, `onnx::MatMul_18`) also matches the
/// corresponding names of the source.
pub(super) fn of_source(graph: &GraphProto, options: &GraphOptions) -> GraphOptions {
    let renamed: Vec<(&str, &str)> = stored(graph).collect();
    let names: Vec<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut options = options.clone();
    let GraphOptions { train, freeze, only, tie, untie, parameter, .. } = &mut options;
    for patterns in [train, freeze, only, tie, untie, parameter] {
        *patterns = patterns.drain(..).flat_map(|pattern| in_source(pattern, &names, &renamed)).collect();
    }
    options
}

/// Returns `pattern`, if it matches a name, and the names of the tensors that it matches in the file.
fn in_source(pattern: String, names: &[&str], renamed: &[(&str, &str)]) -> Vec<String> {
    let one = [pattern];
    let found: Vec<String> =
        renamed.iter().filter(|(_, stored)| glob::any(&one, stored)).map(|(name, _)| name.to_string()).collect();
    match found.is_empty() || names.iter().any(|name| glob::any(&one, name)) {
        true => one.into_iter().chain(found).collect(),
        false => found,
    }
}
