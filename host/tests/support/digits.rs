//! Training on the digits that ship with the project.

use super::models::path;
use damper::data::DataOptions;
use damper::grad::{DeriveOptions, Loss};
use damper::graph::GraphOptions;
use damper::train::{InputFiles, Progress};

/// Stops after some steps.
#[allow(dead_code, reason = "not every test stops a run")]
pub struct StopAfter(pub u32);

impl Progress for StopAfter {
    fn stop(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

/// Returns the digits, for the model `model` of `onnx-models`.
pub fn source(model: &str) -> InputFiles {
    InputFiles {
        model: path(model),
        of_file: Default::default(),
        lora: None,
        graph: GraphOptions::default(),
        derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
        data: format!("idx:{}", path("digits").display()),
        data_options: DataOptions::default(),
    }
}
