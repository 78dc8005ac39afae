//! Compiles a network with its loss into a crate or C99 files that train it privately, without an operating system or
//! a heap.
//!
//! ```text
//! Graph ─ grad ─► GradGraph ─ Program (damper-runtime's, of one sample) ─► Schedule ─► source
//! ```
//!
//! The crate calls the same kernels as the portable backend, with the same shapes and in the same order. Each sample's
//! gradient has the bits of that backend. Shapes, constants and the memory layout are fixed at compile time.

mod c;
mod call;
mod compiled;
mod error;
mod expected;
mod layout;
mod library;
mod manifest;
mod names;
mod network;
mod readme;
mod rolled;
mod schedule;
mod source;
mod test;

pub use compiled::{CompileOptions, Compiled, CompiledFile, Footprint, Language};
pub use error::CompileError;

use damper_grad::GradGraph;
use damper_onnx::graph::Graph;
use network::Network;

/// Compiles the gradient graph `grad` of `graph`. It must be a graph of factored gradients at one evaluation point.
///
/// # Errors
///
/// Fails if a node has no portable kernel, and names the node. Also fails if the memory needed exceeds the given limit
/// or that of a 32-bit device.
pub fn compile(graph: &Graph, grad: &GradGraph, options: &CompileOptions) -> Result<Compiled, CompileError> {
    if grad.points != 1 {
        return Err(CompileError::new("gradients at several points cannot be compiled"));
    }
    let mut network = Network::new(graph, grad)?;
    network.fit(options.memory)?;
    let figures = Footprint::of(&network);
    const MOST: usize = 1 << 31;
    if [4 * figures.params, figures.memory, figures.constants].iter().any(|bytes| *bytes >= MOST) {
        return Err(CompileError::new("its numbers take more than the 2 GiB that a device of 32 bits may have"));
    }
    let initial = initial(graph, grad);
    let name = names::crate_name(&options.name);
    let text = |path: &str, text: String| CompiledFile { path: path.into(), bytes: text.into_bytes() };
    let readme = text("README.md", readme::readme(&network, &name, &figures, options.language));
    let gradient = expected::gradient(&network, grad, &initial)?;
    if options.language == Language::C {
        let prefix = name.replace('-', "_");
        let sources = c::sources(&network, &options.name, &prefix, &initial);
        let files = vec![
            readme,
            text(&format!("{prefix}.h"), sources.header),
            text(&format!("{prefix}.c"), sources.source),
            text("test.c", c::test(&network, &prefix, &gradient)),
        ];
        return Ok(Compiled { files, figures });
    }
    let sources = source::sources(&network, &options.name);
    let floats = |path: &str, floats: &[f32]| CompiledFile {
        path: path.into(),
        bytes: floats.iter().flat_map(|float| float.to_le_bytes()).collect(),
    };
    let mut files = vec![
        readme,
        text("Cargo.toml", manifest::of_crate(&name, options.damper.as_deref())),
        text("src/lib.rs", sources.lib),
        text("src/kernels.rs", sources.kernels),
        text("src/shapes.rs", sources.shapes),
        text("src/constants.rs", sources.constants),
        floats("src/params.f32", &initial),
        text("tests/same_bits.rs", test::source(&network, &name)),
        floats("tests/gradient.f32", &gradient),
    ];
    if !network.constants.f32.is_empty() {
        files.push(floats("src/constants.f32", &network.constants.f32));
    }
    for (at, weight) in network.constants.quantized.iter().enumerate() {
        let bytes = weight.values.iter().map(|value| *value as u8).collect();
        files.push(CompiledFile { path: format!("src/q{at}.i8"), bytes });
    }
    if options.damper.is_none() {
        files.extend(manifest::copied());
    }
    Ok(Compiled { files, figures })
}

/// Returns the model file's values of the trained parameters, flat, in the order of the gradient graph.
fn initial(graph: &Graph, grad: &GradGraph) -> Vec<f32> {
    let of_name = |name: &str| graph.parameters.iter().find(|parameter| parameter.name == name);
    let found = grad.parameters.iter().filter_map(|spec| of_name(&spec.name));
    found.filter_map(|parameter| parameter.initial.as_f32()).flatten().copied().collect()
}
