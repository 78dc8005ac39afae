//! Options of a derivation: loss, label weights, reduction, readout.

use super::readout::Readout;
use std::num::NonZeroUsize;

/// Loss with one value per sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// `softmax-cross-entropy`: labels int64 with the output's shape without the class axis, `[N]` or `[N, S]`. Reduces
    /// over the tokens with labels other than −100.
    SoftmaxCrossEntropy,
    /// `causal-lm`: logits `[N, S, K]` and labels int64 `[N, S]`, the tokens themselves. Each token is predicted from
    /// the tokens before it, so logits at a position are compared with the label of the next. Reduces over the labels
    /// from the second on, other than −100.
    CausalLm,
    /// `ctc`: logits `[N, T, K]`, with class 0 as the blank, and labels int64 `[N, T]`, padded with −100 or 0. Reduces
    /// over the labels.
    Ctc,
    /// `mse`: labels with the output's shape. Reduces over the sample's elements.
    Mse,
    /// `l1`: the absolute difference. Otherwise as `mse`.
    L1,
    /// `huber`: half the square of a difference of at most 1, else its absolute value minus 1/2. Otherwise as `mse`.
    Huber,
    /// `bce-with-logits`: labels with the output's shape. Reduces over the elements with labels other than −100.
    BceWithLogits,
    /// `output:NAME`: the model computes the loss.
    Output(String),
}

impl Loss {
    /// Returns true if each label is compared with the classes at one position of the output.
    #[must_use]
    pub fn is_of_classes(&self) -> bool {
        matches!(self, Self::SoftmaxCrossEntropy | Self::CausalLm)
    }
}

/// Reduction from the losses of tokens or elements to a sample's loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LossReduction {
    /// Mean over counted terms, or 0 without any.
    #[default]
    Mean,
    /// Sum. A long sample has a larger loss than a short sample, until its gradient is clipped.
    Sum,
}

/// Weights of labels in classification losses. All are public.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LabelWeights {
    /// `w`: factor for the loss of each class, with one entry per class. [`Loss::BceWithLogits`] has two entries, for
    /// the labels 0 and 1. A label `t` in between has the loss `w₁·t·l₁ + w₀·(1 − t)·l₀`, like PyTorch's `pos_weight`.
    /// Empty for no weights. A sample's loss is not divided by its weight, because no sample's loss may depend on
    /// others. This differs from PyTorch's mean over a batch.
    pub class_weights: Vec<f32>,
    /// `α`: labels are `1 − α` for their class plus `α/K` for each of the K classes (Szegedy et al., 2016). From 0 to
    /// below 1.
    pub label_smoothing: f32,
    /// `γ`: multiplies the loss of a label with probability p by `(1 − p)^γ` (focal loss, Lin et al., 2017). 0, or at
    /// least 1.
    pub focal_gamma: f32,
}

impl LabelWeights {
    /// Returns true if every label has its plain loss.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Options of [`derive()`](crate::derive()).
#[derive(Clone, PartialEq, Debug)]
pub struct DeriveOptions {
    /// Loss to differentiate.
    pub loss: Loss,
    /// Output that feeds the loss. Optional if the model has only one output.
    pub output: Option<String>,
    /// Axis of that output with the classes. By default the last axis.
    pub class_axis: Option<i64>,
    /// Reduction from tokens or elements to a sample's loss.
    pub reduction: LossReduction,
    /// Weights of labels.
    pub label_weights: LabelWeights,
    /// Outputs of the reverse sweep.
    pub readout: Readout,
    /// Number of evaluation points for gradients, which are combined for each sample.
    pub points: NonZeroUsize,
    /// Stores few activations and recomputes the others in the reverse sweep. This needs less memory and at most one
    /// more forward pass. The values are the same. The bits are the same if the runtime runs the graph unchanged (tract
    /// does not).
    pub checkpoint_activations: bool,
}

impl DeriveOptions {
    /// `per-sample` readout of `loss` at the model's only output, with classes on the last axis, at one evaluation
    /// point.
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            output: None,
            class_axis: None,
            reduction: LossReduction::Mean,
            label_weights: LabelWeights::default(),
            readout: Readout::PerSample,
            points: NonZeroUsize::MIN,
            checkpoint_activations: false,
        }
    }
}
