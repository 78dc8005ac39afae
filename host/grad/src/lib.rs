//! Reverse-mode differentiation of a [`Graph`](damper_onnx::graph::Graph) into an ONNX model that computes every sample's
//! gradient.
//!
//! The stages: the forward pass is written as it stands; a loss gives the first gradient; one walk over the nodes in
//! reverse order (`sweep`) asks each operator's rule (`rules`) for the gradients of its inputs; parameter gradients
//! stay in factored form (`factor`) until a readout (`readout`) writes what was asked for.

mod axis_map;
mod broadcast;
mod cost;
mod derive;
mod emit;
mod factor;
mod lookup;
mod loss;
mod lower;
mod normalize;
mod readout;
mod refusal;
mod rules;
mod sweep;
mod window;

pub use cost::Cost;
pub use derive::{UNREACHED, derive};
pub use factor::Costs;
pub use readout::{Readout, Way};
pub use refusal::Refusal;
pub use rules::{has_slope, is_differentiated, rules};
pub use window::Window;

use damper_onnx::TensorSpec;
use damper_onnx::pb::ModelProto;
use std::num::NonZeroUsize;

/// A loss, one number a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// `softmax-cross-entropy`: labels int64 of the output's shape without the class axis, `[N]` or `[N, S]`; over the
    /// tokens whose label is not −100.
    SoftmaxCrossEntropy,
    /// `mse`: labels of the output's shape; over the sample's elements.
    Mse,
    /// `bce-with-logits`: labels of the output's shape; over the elements whose label is not −100.
    BceWithLogits,
    /// `output:NAME`: the model computes it.
    Output(String),
}

/// How a sample's loss is taken of the losses of its tokens or elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reduction {
    /// Their mean over those that count, 0 where none does.
    #[default]
    Mean,
    /// Their sum: a long sample weighs more than a short one, until it is clipped.
    Sum,
}

/// What [`derive()`] is to emit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeriveOptions {
    /// The loss whose gradient is taken.
    pub loss: Loss,
    /// The output that feeds the loss; may be left out where the model has one.
    pub output: Option<String>,
    /// The axis of that output that holds the classes; the last where left out.
    pub class_axis: Option<i64>,
    /// How a sample's loss is taken of those of its tokens or elements.
    pub reduction: Reduction,
    /// What is read out of the sweep.
    pub readout: Readout,
    /// At how many points gradients are taken, to be mixed for each sample.
    pub points: NonZeroUsize,
}

impl DeriveOptions {
    /// The `per-sample` readout of `loss` at the model's one output, classes on the last axis, at one point.
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            output: None,
            class_axis: None,
            reduction: Reduction::Mean,
            readout: Readout::PerSample,
            points: NonZeroUsize::MIN,
        }
    }
}

/// An emitted gradient graph (names and shapes: design, "Names and shapes of an emitted graph").
#[derive(Clone, PartialEq, Debug)]
pub struct GradGraph {
    /// The model to run.
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
    /// (or `dp.left.NAME` and `dp.right.NAME`), or `dp.norm`, or `dp.norm` and `dp.sum.NAME` for each of them.
    pub outputs: Vec<TensorSpec>,
    /// The kernels whose gradient the reader takes of `dp.left.NAME` `[N, O, *output]` and `dp.right.NAME` `[N, C, *input]`, and the
    /// windows over the latter.
    pub windows: Vec<(String, Window)>,
    /// Parameters that were to be trained and are not, since no gradient reaches them from the loss: initializers.
    pub unreached: Vec<String>,
    /// In which form the gradient of each of `parameters` is taken.
    pub ways: Vec<Way>,
    /// What running it costs.
    pub cost: Cost,
}

impl GradGraph {
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
