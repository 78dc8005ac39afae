//! Writes the models of the compiled networks with their gradients, for `torch_gradients.py`.

use damper_compile::Compiled;
use damper_grad::{DeriveOptions, GradGraph, Loss};
use damper_onnx::Dim;
use damper_onnx::graph::{GraphOptions, retie};
use damper_onnx::pb::ModelProto;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Writes a network into a subfolder of `DAMPER_COMPILED_MODELS`, named after it. Writes nothing for C files.
pub fn write(
    name: &str,
    (model, graph_options): (&ModelProto, &GraphOptions),
    options: &DeriveOptions,
    grad: &GradGraph,
    compiled: &Compiled,
) {
    let Some(all) = std::env::var_os("DAMPER_COMPILED_MODELS") else { return };
    let file = |path: &str| compiled.files.iter().find(|file| file.path == path);
    let (Some(params), Some(gradient)) = (file("src/params.f32"), file("tests/gradient.f32")) else { return };
    let folder = PathBuf::from(all).join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    fs::create_dir_all(&folder).unwrap();
    let loss = match options.loss {
        Loss::SoftmaxCrossEntropy => "softmax-cross-entropy",
        Loss::BceWithLogits => "bce-with-logits",
        Loss::Mse => "mse",
        ref other => panic!("no test has the loss {other:?}"),
    };
    let model = retie(model, graph_options).unwrap();
    let output = options.output.clone().unwrap_or_else(|| model.graph.as_ref().unwrap().output[0].name.clone());
    let mut parameters = String::new();
    for spec in &grad.parameters {
        parameters += &spec.name;
        spec.shape.iter().map(|dim: &Dim| dim.extent(1)).for_each(|extent| write!(parameters, "\t{extent}").unwrap());
        parameters.push('\n');
    }
    for (path, bytes) in [
        ("name", name.as_bytes()),
        ("model.onnx", &damper_onnx::encode(&model)),
        ("loss", format!("{loss} {output}").as_bytes()),
        ("parameters", parameters.as_bytes()),
        ("params.f32", &params.bytes),
        ("gradient.f32", &gradient.bytes),
    ] {
        fs::write(folder.join(path), bytes).unwrap();
    }
}
