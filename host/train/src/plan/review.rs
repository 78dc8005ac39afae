//! Facts about a model before training. `damper train` warns about them, and `damper inspect` prints them.

use damper_grad::DeriveOptions;
use damper_onnx::graph::{Graph, GraphOptions, free_batch};
use damper_onnx::pb::ModelProto;

/// Returns `model` for any batch size, if possible, and the warnings on its parameters, loss and batch, one line each.
/// `graph` was read from `model` with `options`.
pub fn review(
    model: ModelProto,
    graph: &Graph,
    options: &GraphOptions,
    derive: &DeriveOptions,
) -> (ModelProto, Vec<String>) {
    let mut warnings = damper_grad::warnings(graph, derive);
    match free_batch(&model, graph, options) {
        Ok(freed) => (freed.unwrap_or(model), warnings),
        Err(reason) => {
            warnings.push(format!(
                "the export fixes the batch, and the trained model keeps it ({reason}); export with a symbolic batch"
            ));
            (model, warnings)
        }
    }
}
