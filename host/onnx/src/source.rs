//! Restores the tensors of the source from an exported file.
//!
//! PyTorch's dynamo exporter folds constants (`val_0` is the transpose of `lin.weight`). It merges small tensors of
//! equal value (all zero biases become one) and drops zero biases. It records this in metadata of values and nodes
//! ([`ExportRecord`]). [`restore`] undoes it by this record: each parameter of the source becomes an initializer with
//! its name in the source. Nothing else changes. The TorchScript exporter leaves no record except the scopes in its
//! node names (see [`scopes`]).
//!
//! A file without a record stays unchanged. Values and names then decide which tensors are parameters
//! (`graph/parameter`).

mod biases;
mod invented;
mod lookups;
mod merged;
mod names;
mod names_in_file;
mod parts;
mod record;
mod scopes;

use crate::mark::metadata;
use crate::pb::ModelProto;
use crate::scopes::has_branches;

pub use invented::is_exporters_name;
pub use names_in_file::stored;
pub use record::{ExportRecord, SourceKind, call};
pub use scopes::module;

/// Metadata key of a model that `damper.fit` exported. Its tensor names map back to the module.
const MODULE: &str = "damper.module";

/// Restores the names and the number of the float32 initializers of `model` to those of its source, as far as the file
/// records them. Calling it again changes nothing.
pub fn restore(model: &mut ModelProto) {
    if metadata(model, MODULE).is_some() {
        return;
    }
    // Subgraphs also read values by name.
    let Some(graph) = model.graph.as_mut().filter(|graph| !has_branches(graph)) else { return };
    let record = ExportRecord::of(graph);
    parts::take_apart(graph, &record);
    lookups::unfold(graph, &record);
    if record.is_empty() {
        scopes::name(graph);
        return;
    }
    merged::take_apart(graph, &record);
    biases::restore(graph, &record);
    names::give(graph, &ExportRecord::of(graph));
}
