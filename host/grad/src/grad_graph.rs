//! Emitted model, with its inputs and outputs.

use super::cost::Cost;
use super::readout::GradStrategy;
use super::window::SlidingWindow;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TensorSpec, lower_custom, make_pads_symmetric};

/// Emitted gradient graph (names and shapes: design, "Names and shapes of an emitted graph").
#[derive(Clone, PartialEq, Debug)]
pub struct GradGraph {
    /// Model for a runtime that supports or lowers the custom operators, like those of damper-runtime.
    pub model: ModelProto,
    /// Data inputs of the model.
    pub inputs: Vec<TensorSpec>,
    /// `dp.labels`. `None` for `output:NAME`.
    pub labels: Option<TensorSpec>,
    /// Trained parameters under their own names, in the order of the flat parameter vector. With several evaluation
    /// points, the inputs are `NAME@0`, `NAME@1`, ….
    pub parameters: Vec<TensorSpec>,
    /// Number of evaluation points, `K`.
    pub points: usize,
    /// `dp.mix` `[K]`, the weights of the evaluation points, if there are several.
    pub mix: Option<TensorSpec>,
    /// `dp.clip`, a scalar above 0, for a clipped sum.
    pub clip: Option<TensorSpec>,
    /// `dp.weight` `[N]`, each 0 or 1, for a clipped sum.
    pub weight: Option<TensorSpec>,
    /// `dp.loss`, the model's outputs (both at point 0), then the outputs of the readout. For each of `parameters`,
    /// these are `dp.grad.NAME`, or `dp.left.NAME` and `dp.right.NAME`. The latter are factors of one outer product, of
    /// one per position, or of the rows of a table. Instead there may be `dp.norm`, or `dp.norm` and a `dp.sum.NAME`
    /// for each parameter.
    pub outputs: Vec<TensorSpec>,
    /// Kernels for which the reader computes the gradient from `dp.left.NAME` `[N, O, *output]` and `dp.right.NAME`
    /// `[N, C, *input]`, and the windows over the latter.
    pub windows: Vec<(String, KernelWindows)>,
    /// Initializers that were selected for training but are not trained because no gradient reaches them from the loss.
    pub unreached: Vec<String>,
    /// Form of the gradient of each of `parameters`.
    pub strategies: Vec<GradStrategy>,
    /// Cost of a run.
    pub cost: Cost,
}

/// Windows of a convolution for which the reader computes the kernel's gradient.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelWindows {
    /// Windows over the input.
    pub window: SlidingWindow,
    /// Number of groups of the convolution.
    pub groups: usize,
}

impl GradGraph {
    /// Model with only standard ONNX operators, for any runtime.
    pub fn standard_model(&self) -> ModelProto {
        let mut model = self.model.clone();
        lower_custom(&mut model, |_| false);
        model
    }

    /// Model with only operators in forms for which devices have kernels.
    pub fn device_model(&self) -> ModelProto {
        let mut model = self.standard_model();
        make_pads_symmetric(&mut model);
        model
    }

    /// Length of the flat parameter vector: number of elements of all trained parameters.
    pub fn trained_len(&self) -> usize {
        self.parameters.iter().map(|spec| spec.elements(1)).sum()
    }

    /// All inputs, in the model's order: data, labels, the parameters at each point, mix, clip, weight.
    pub fn feeds(&self) -> Vec<TensorSpec> {
        let at = |point: usize| {
            let named = move |spec: &TensorSpec| match self.points {
                1 => spec.clone(),
                _ => TensorSpec { name: format!("{}@{point}", spec.name), ..spec.clone() },
            };
            self.parameters.iter().map(named)
        };
        let data = self.inputs.iter().chain(&self.labels).cloned();
        let rest = self.mix.iter().chain(&self.clip).chain(&self.weight).cloned();
        data.chain((0..self.points).flat_map(at)).chain(rest).collect()
    }
}
