//! The tensors of a file as its source has them.
//!
//! PyTorch's dynamo exporter folds constants (`val_0` is the transpose of `lin.weight`), merges small tensors of equal value (all
//! biases of zeros become one) and drops biases of zeros. Metadata of values and nodes record that: [`ExportRecord`].
//! [`restore`] undoes it by this record: each parameter of the source is an initializer of its own, under its name in the source,
//! and nothing else changes. The TorchScript exporter leaves no record but the scopes in its nodes' names: see [`scopes`].
//!
//! A file without a record stays as it is. Values and names then decide what a parameter is (`graph/parameter`).

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

/// The key of a model that `damper.fit` exported: its tensors have names that lead back to the module.
const MODULE: &str = "damper.module";

/// Gives the float32 initializers of `model` the names and the number that its source has, as far as the file records them: again, of a
/// model that has them, nothing.
pub fn restore(model: &mut ModelProto) {
    if metadata(model, MODULE).is_some() {
        return;
    }
    // Branches read values by name, too.
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
