//! Patterns that name an initializer as the exporter's file does.

use super::{GraphOptions, glob};
use crate::pb::GraphProto;
use crate::source::stored;

/// `options` with each pattern that only matches names of the file (`val_0`, `onnx::MatMul_18`) in the names of the source.
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

/// `pattern`, or the names that tensors have that it matches in the file.
fn in_source(pattern: String, names: &[&str], renamed: &[(&str, &str)]) -> Vec<String> {
    let one = [pattern];
    if names.iter().any(|name| glob::any(&one, name)) {
        return one.into();
    }
    let found: Vec<String> =
        renamed.iter().filter(|(_, stored)| glob::any(&one, stored)).map(|(name, _)| name.to_string()).collect();
    if found.is_empty() { one.into() } else { found }
}
