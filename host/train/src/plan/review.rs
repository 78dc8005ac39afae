//! Facts about a model before training: `damper train` warns of them, and `damper inspect` shows them.

use damper_grad::DeriveOptions;
use damper_onnx::graph::{Graph, GraphOptions, free_batch};
use damper_onnx::pb::ModelProto;

/// `model` for any batch, if it can be had, and the warnings on its parameters, loss and batch: one line each. `graph` is read
/// from `model` with `options`.
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
