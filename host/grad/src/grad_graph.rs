//! The emitted model, and what is fed to it and read from it.

use super::cost::Cost;
use super::readout::GradStrategy;
use super::window::SlidingWindow;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TensorSpec, lower_custom, make_pads_symmetric};

/// An emitted gradient graph (names and shapes: design, "Names and shapes of an emitted graph").
#[derive(Clone, PartialEq, Debug)]
pub struct GradGraph {
    /// The model to run on a runtime that knows the custom operators or lowers them, as those of damper-runtime do.
    pub model: ModelProto,
    /// The model's own data inputs.
    pub inputs: Vec<TensorSpec>,
    /// `dp.labels`; none for `output:NAME`.
    pub labels: Option<TensorSpec>,
    /// The trained parameters, in the order in which the flat parameter vector holds them, under their own names: with
    /// several points `NAME@0`, `NAME@1`, … are the inputs.
    pub parameters: Vec<TensorSpec>,
    /// Number of points, `K`.
    pub points: usize,
    /// `dp.mix` `[K]`, the weights of the points, where there are several.
    pub mix: Option<TensorSpec>,
    /// `dp.clip`, a scalar above 0, of a clipped sum.
    pub clip: Option<TensorSpec>,
    /// `dp.weight` `[N]`, each 0 or 1, of a clipped sum.
    pub weight: Option<TensorSpec>,
    /// `dp.loss`, the model's outputs (both at point 0), then what was read out: `dp.grad.NAME` for each of `parameters`
    /// (or `dp.left.NAME` and `dp.right.NAME`, of one outer product, of one a position, or of a table's rows), or `dp.norm`, or `dp.norm` and `dp.sum.NAME` for each of them.
    pub outputs: Vec<TensorSpec>,
    /// The kernels whose gradient the reader takes of `dp.left.NAME` `[N, O, *output]` and `dp.right.NAME` `[N, C, *input]`, and the
    /// windows over the latter.
    pub windows: Vec<(String, KernelWindows)>,
    /// Parameters that were to be trained and are not, since no gradient reaches them from the loss: initializers.
    pub unreached: Vec<String>,
    /// In which form the gradient of each of `parameters` is taken.
    pub strategies: Vec<GradStrategy>,
    /// The cost of a run.
    pub cost: Cost,
}

/// The windows of a convolution whose kernel's gradient the reader computes.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelWindows {
    /// The windows over the input.
    pub window: SlidingWindow,
    /// Groups of channels.
    pub groups: usize,
}

impl GradGraph {
    /// The model in operators of the ONNX standard alone, for any runtime.
    pub fn standard_model(&self) -> ModelProto {
        let mut model = self.model.clone();
        lower_custom(&mut model, |_| false);
        model
    }

    /// The same in the forms that devices have kernels for.
    pub fn device_model(&self) -> ModelProto {
        let mut model = self.standard_model();
        make_pads_symmetric(&mut model);
        model
    }

    /// The length of the flat parameter vector: elements of all trained parameters.
    pub fn trained_len(&self) -> usize {
        self.parameters.iter().map(|spec| spec.elements(1)).sum()
    }

    /// Every input, in the model's order: data, labels, the parameters at each point, mix, clip, weight.
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
