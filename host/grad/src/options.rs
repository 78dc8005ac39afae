//! The options of a derivation: loss, weights of labels, reduction, readout.

use super::readout::Readout;
use std::num::NonZeroUsize;

/// A loss, one number a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// `softmax-cross-entropy`: labels int64 of the output's shape without the class axis, `[N]` or `[N, S]`; over the
    /// tokens whose label is not −100.
    SoftmaxCrossEntropy,
    /// `causal-lm`: logits `[N, S, K]` and labels int64 `[N, S]`, the tokens themselves. Each is predicted from those before it, so the logits
    /// of a place are compared with the next place's label. Over the labels from the second that are not −100.
    CausalLm,
    /// `ctc`: logits `[N, T, K]`, class 0 the blank, and labels int64 `[N, T]`, padded with −100 or 0. Over the labels.
    Ctc,
    /// `mse`: labels of the output's shape; over the sample's elements.
    Mse,
    /// `l1`: the absolute difference. Otherwise as `mse`.
    L1,
    /// `huber`: half the square of a difference of at most 1, else its size less a half. Otherwise as `mse`.
    Huber,
    /// `bce-with-logits`: labels of the output's shape; over the elements whose label is not −100.
    BceWithLogits,
    /// `output:NAME`: the model computes it.
    Output(String),
}

impl Loss {
    /// Returns true if each label is compared with the classes of one place of the output.
    #[must_use]
    pub fn is_of_classes(&self) -> bool {
        matches!(self, Self::SoftmaxCrossEntropy | Self::CausalLm)
    }
}

/// How a sample's loss is taken of the losses of its tokens or elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LossReduction {
    /// Their mean over those that count, 0 where none does.
    #[default]
    Mean,
    /// Their sum: a long sample weighs more than a short one, until it is clipped.
    Sum,
}

/// How much each label counts in a loss of classes. All of it is public.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LabelWeights {
    /// `w`, by which the loss of each class is multiplied: one for each class, or two for [`Loss::BceWithLogits`], of the labels 0 and 1:
    /// a label `t` between them has the loss `w₁·t·l₁ + w₀·(1 − t)·l₀`, PyTorch's `pos_weight`. None if empty. A sample's loss is not
    /// divided by its weight, as PyTorch's mean over a batch is: no sample's loss depends on others.
    pub class_weights: Vec<f32>,
    /// `α`: labels are `1 − α` of their class and `α/K` of each of the K classes (Szegedy et al., 2016). From 0 to below 1.
    pub label_smoothing: f32,
    /// `γ`: the loss of a label with the probability p is multiplied by `(1 − p)^γ` (focal loss, Lin et al., 2017). 0, or 1 and more.
    pub focal_gamma: f32,
}

impl LabelWeights {
    /// Returns true if every label counts as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Options of [`derive()`](crate::derive()).
#[derive(Clone, PartialEq, Debug)]
pub struct DeriveOptions {
    /// The loss whose gradient is taken.
    pub loss: Loss,
    /// The output that feeds the loss; may be left out where the model has one.
    pub output: Option<String>,
    /// The axis of that output that holds the classes; the last where left out.
    pub class_axis: Option<i64>,
    /// How a sample's loss is taken of those of its tokens or elements.
    pub reduction: LossReduction,
    /// How much each label counts.
    pub label_weights: LabelWeights,
    /// The outputs of the reverse sweep.
    pub readout: Readout,
    /// At how many points gradients are taken, to be mixed for each sample.
    pub points: NonZeroUsize,
    /// Keeps few activations and computes the others again in the reverse sweep: less memory for at most one more forward
    /// pass. The numbers are the same; so are their bits, if a runtime runs the graph as it is (tract does not).
    pub checkpoint_activations: bool,
}

impl DeriveOptions {
    /// The `per-sample` readout of `loss` at the model's one output, classes on the last axis, at one point.
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
