//! Gradient graphs of the models, and single runs of them.

use super::models::path;
use damper::grad::{DeriveOptions, GradGraph, Loss, derive};
use damper::graph::{Graph, GraphOptions};
use damper::onnx;
use damper::onnx::TensorRef;
use damper::onnx::TensorSpec;
use damper::runtime::{Backend, Session, SessionSpec};

/// Returns options for a parameter of `file` that the source trains and the rule does not: it is subtracted from the
/// input.
#[allow(dead_code, reason = "not every test has the exports")]
pub fn choice(file: &str) -> GraphOptions {
    let train = if file.contains("/operators.") { vec!["shift".into()] } else { vec![] };
    GraphOptions { train, ..GraphOptions::default() }
}

/// Returns the graph of the model `file`.
pub fn graph(file: &str, options: &GraphOptions) -> Result<Graph, String> {
    let model = onnx::load(&path(file)).expect("the file is an ONNX model");
    Graph::from_model(&model, options).map_err(|error| error.to_string())
}

/// Returns the `per-sample` gradient graph of the model `file`.
pub fn grad_graph(file: &str, loss: Loss) -> GradGraph {
    let graph = graph(file, &choice(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    derive(&graph, &DeriveOptions::new(loss)).unwrap_or_else(|refusal| panic!("{file}: {refusal}"))
}

/// Returns the inputs of `grad`, in the order of a plan: data, labels, parameters.
pub fn inputs(grad: &GradGraph) -> Vec<TensorSpec> {
    grad.inputs.iter().chain(&grad.labels).chain(&grad.parameters).cloned().collect()
}

/// Returns `dp.loss` and the gradients or their factors, in the order of `grad.parameters`.
pub fn released(grad: &GradGraph) -> Vec<TensorSpec> {
    let is_read =
        |name: &str| ["dp.loss", "dp.grad.", "dp.left.", "dp.right."].iter().any(|read| name.starts_with(read));
    grad.outputs.iter().filter(|spec| is_read(&spec.name)).cloned().collect()
}

/// Returns a single-threaded session of `grad` for `batch` rows.
pub fn session(backend: &dyn Backend, grad: &GradGraph, batch: usize) -> Box<dyn Session> {
    let plan = SessionSpec { batch, threads: 1, inputs: inputs(grad), outputs: released(grad) };
    backend.load(&grad.model, &plan).unwrap_or_else(|error| panic!("{}: {error}", backend.name()))
}

/// Returns the outputs of one run.
pub fn run(session: &mut dyn Session, inputs: &[TensorRef<'_>]) -> Vec<Vec<f32>> {
    let mut kept = Vec::new();
    session.run(inputs, &mut |outputs| kept = outputs.iter().map(|output| output.to_vec()).collect()).expect("it runs");
    kept
}

/// Returns the file's values of the trained parameters, in the order of `grad.parameters`.
pub fn values(graph: &Graph, grad: &GradGraph) -> Vec<Vec<f32>> {
    let of = |spec: &TensorSpec| {
        let parameter = graph.parameters.iter().find(|parameter| parameter.name == spec.name);
        parameter.and_then(|parameter| parameter.initial.as_f32()).expect("parameters are f32").to_vec()
    };
    grad.parameters.iter().map(of).collect()
}
