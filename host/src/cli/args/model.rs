//! Flags on reading and differentiating a model: the same for `train`, `derive` and `inspect`.

mod flags;

use crate::cli::args::flags::number::{float32, whole};
use crate::cli::args::flags::with_flags;
use crate::cli::args::text::{FromText, OneOrMany, Text, one_or_many};
use crate::cli::{Failure, number32};
use clap::Args;
use damper_edit::LoraOptions;
use damper_edit::init::{self, LoadOptions, Loaded};
use damper_edit::lora::{self, Lora};
use damper_grad::{DeriveOptions, LabelWeights, Loss, LossReduction};
use damper_onnx::graph::GraphOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::path::Path;

/// Settings for reading a model.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct ModelArgs {
    /// Loss to minimise, one number for each sample: softmax-cross-entropy, causal-lm, ctc, mse, l1, huber,
    /// bce-with-logits, or output:NAME if the model computes its own loss [default: softmax-cross-entropy]
    #[arg(long, value_name = "LOSS")]
    loss: Option<Text<Loss>>,
    /// The model output that feeds the loss, if there are several
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// The axis of that output that holds the classes, counted with the batch [default: the last]
    #[arg(long, value_name = "AXIS", allow_negative_numbers = true)]
    pub class_axis: Option<i64>,
    /// Reduction of a sample's loss over its tokens or elements: the mean over those that count, or the sum [default:
    /// mean]
    #[arg(long, value_name = "mean|sum")]
    reduction: Option<Text<LossReduction>>,
    /// Public factor on the loss of each class. With bce-with-logits, of the labels 0 and 1
    #[arg(long, value_name = "W,W,...")]
    class_weights: Option<Text<Weights>>,
    /// softmax-cross-entropy: takes a share A of each label and divides it among all classes
    #[arg(long, value_name = "A", value_parser = number32)]
    #[serde(with = "float32")]
    #[schemars(with = "Option<f32>")]
    label_smoothing: Option<f32>,
    /// Focal loss: multiplies the loss of a label with the probability p by (1 - p)^G. 2 is usual, 1 the least
    #[arg(long, value_name = "G", value_parser = number32)]
    #[serde(with = "float32")]
    #[schemars(with = "Option<f32>")]
    focal_gamma: Option<f32>,
    /// Trains exactly the initializers of these names, each as a single weight for all its uses, and takes nothing from
    /// their values. For programs that have the names. With --lora, those of them that --train names (may be repeated)
    #[arg(long, value_name = "NAME")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub parameter: Vec<String>,
    /// Trains exactly the initializers that match, and no others (`*` and `?`, may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub only: Vec<String>,
    /// Trains the initializers that match, even if the rule excludes them (`*` and `?`, may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub train: Vec<String>,
    /// Does not train the initializers that match. Overrides --train, so take --only to train a part (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub freeze: Vec<String>,
    /// LoRA: trains adapters of RANK columns on the linear weights of --lora-target, which stay frozen, and of the rest
    /// those that --train names. They are drawn from --init-seed, and merged into the weights at the end
    #[arg(long, value_name = "RANK")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub lora: Option<NonZeroUsize>,
    /// The weights that get an adapter: initializers that MatMul or Gemm multiply by (`*` and `?`, may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub lora_target: Vec<String>,
    /// The adapters' product is multiplied by A / RANK [default: RANK, so by 1]
    #[arg(long, value_name = "A", value_parser = number32)]
    #[serde(with = "float32")]
    #[schemars(with = "Option<f32>")]
    pub lora_alpha: Option<f32>,
    /// Leaves the adapters in model.onnx instead of merging them
    #[arg(long)]
    pub lora_keep: bool,
    /// Treats the initializers that match as one weight for all their uses (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub tie: Vec<String>,
    /// Treats the initializers that match as a separate weight for each use. Overrides --tie (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub untie: Vec<String>,
    /// Size of a dynamic axis other than the batch, by its name, or as INPUT[AXIS]=N (may be repeated)
    #[arg(long, value_name = "NAME=N")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub shape: Vec<Text<Extent>>,
    /// The public value of an input that samples do not give: a number for all of it, true, false, or all its numbers
    /// separated by commas (may be repeated)
    #[arg(long, value_name = "NAME=VALUE")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub input: Vec<Text<Value>>,
    /// Computes most activations again in the backward pass instead of keeping them. For long networks this takes less
    /// memory, and up to one more forward pass. The bits are the same, except on tract
    #[arg(long)]
    pub checkpoint_activations: bool,
    /// Replaces each BatchNormalization by an operator on single samples, as `damper fix` does: merged into the
    /// previous layer if it has statistics, else a GroupNorm
    #[arg(long)]
    pub fix: bool,
    /// Public seed of the weights that the model file omits [default: 0]
    #[arg(long, value_name = "SEED")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub init_seed: Option<u64>,
}

impl ModelArgs {
    /// Loads the model in `file`, with weights and the requested adapters, and returns it with the options for reading
    /// it.
    pub(in crate::cli) fn load(&self, file: &Path) -> Result<(Loaded, GraphOptions), Failure> {
        let options = self.graph_options();
        let Some(lora) = self.lora() else { return Ok((init::load(file, self.of_file())?, options)) };
        let found = lora::load(file, self.of_file(), &options, &lora);
        let (loaded, adapted) = found.map_err(|error| Failure::in_model(file, error.into()))?;
        let options = adapted.options(&options);
        let warnings = loaded.warnings.iter().map(|warning| with_flags(warning)).collect();
        Ok((Loaded { model: adapted.model, warnings, ..loaded }, options))
    }

    /// Returns the settings that read the model which a run with these settings wrote.
    pub(in crate::cli) fn of_trained(self) -> Self {
        let (only, train, parameter) = match self.lora {
            // The adapters are merged into these weights.
            Some(_) => (self.lora_target.into_iter().chain(self.train).collect(), vec![], vec![]),
            None => (self.only, self.train, self.parameter),
        };
        let lora_target = vec![];
        let left_out = Self { only, train, parameter, lora_target, lora: None, lora_alpha: None, ..self };
        Self { lora_keep: false, checkpoint_activations: false, fix: false, init_seed: None, ..left_out }
    }

    /// Returns the options for reading the file.
    pub(in crate::cli) fn of_file(&self) -> LoadOptions {
        LoadOptions { seed: self.init_seed, fix: self.fix }
    }

    /// Returns the requested adapters.
    pub(in crate::cli) fn lora(&self) -> Option<Lora> {
        let options = LoraOptions { rank: self.lora?, alpha: self.lora_alpha, targets: self.lora_target.clone() };
        Some(Lora { options, keep: self.lora_keep })
    }

    /// Returns the loss.
    pub(in crate::cli) fn loss(&self) -> Loss {
        self.loss.as_deref().cloned().unwrap_or(Loss::SoftmaxCrossEntropy)
    }

    pub(in crate::cli) fn graph_options(&self) -> GraphOptions {
        GraphOptions {
            train: self.train.clone(),
            freeze: self.freeze.clone(),
            only: self.only.clone(),
            parameter: self.parameter.clone(),
            tie: self.tie.clone(),
            untie: self.untie.clone(),
            adapters: vec![],
            shape: self.shape.iter().map(|extent| (**extent).clone()).collect(),
            input: self.input.iter().map(|value| (value.0.clone(), value.1.clone())).collect(),
            output: match self.loss() {
                Loss::Output(name) => Some(name),
                _ => self.output.clone(),
            },
        }
    }

    pub(in crate::cli) fn derive_options(&self) -> DeriveOptions {
        DeriveOptions {
            output: self.output.clone(),
            class_axis: self.class_axis,
            reduction: self.reduction.as_deref().copied().unwrap_or_default(),
            label_weights: LabelWeights {
                class_weights: self.class_weights.as_deref().map(|weights| weights.0.clone()).unwrap_or_default(),
                label_smoothing: self.label_smoothing.unwrap_or_default(),
                focal_gamma: self.focal_gamma.unwrap_or_default(),
            },
            checkpoint_activations: self.checkpoint_activations,
            ..DeriveOptions::new(self.loss())
        }
    }
}

pub(in crate::cli) fn loss(text: &str) -> Result<Loss, String> {
    match text {
        // The second is PyTorch's name.
        "softmax-cross-entropy" | "cross-entropy" => Ok(Loss::SoftmaxCrossEntropy),
        "causal-lm" => Ok(Loss::CausalLm),
        "ctc" => Ok(Loss::Ctc),
        "mse" => Ok(Loss::Mse),
        "l1" => Ok(Loss::L1),
        "huber" | "smooth-l1" => Ok(Loss::Huber),
        "bce-with-logits" => Ok(Loss::BceWithLogits),
        _ => match text.strip_prefix("output:") {
            Some(name) if !name.is_empty() => Ok(Loss::Output(name.into())),
            _ => {
                Err("use softmax-cross-entropy, causal-lm, ctc, mse, l1, huber, bce-with-logits or output:NAME".into())
            }
        },
    }
}

pub(in crate::cli) fn reduction(text: &str) -> Result<LossReduction, String> {
    match text {
        "mean" => Ok(LossReduction::Mean),
        "sum" => Ok(LossReduction::Sum),
        _ => Err("use mean or sum".into()),
    }
}

/// Weights of the classes.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Weights(Vec<f32>);

impl FromText for Weights {
    fn from_text(text: &str) -> Result<Self, String> {
        text.split(',').map(number32).collect::<Result<_, _>>().map(Self)
    }
}

/// An axis and its size.
pub(in crate::cli) type Extent = (String, usize);

impl FromText for Extent {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((name, size)) if !name.is_empty() => match size.parse() {
                Ok(size) if size > 0 => Ok((name.into(), size)),
                _ => Err(format!("`{size}` is no size; give a whole number above 0")),
            },
            _ => Err("give NAME=N, such as height=28".into()),
        }
    }
}

/// An input and its value, in the form of the library.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Value(String, String);

impl FromText for Value {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(Self(name.into(), value.into())),
            _ => Err("give NAME=VALUE, such as temperature=0.5".into()),
        }
    }
}

/// Default of `--memory`, in bytes.
pub(in crate::cli) const MEMORY: u64 = 2 << 30;

/// Parses a number of bytes, with or without a unit.
pub(in crate::cli) fn memory(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" | "B" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1048576.0,
        "G" | "GiB" => 1073741824.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err("unknown unit; give a number with KiB, MiB or GiB, such as 512MiB".into()),
    };
    match number.parse::<f64>() {
        Ok(number) if number * unit >= 1.0 => Ok((number * unit) as u64),
        _ => Err("give a number above 0 with KiB, MiB or GiB, such as 512MiB".into()),
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Size(pub u64);

impl FromText for Size {
    fn from_text(text: &str) -> Result<Self, String> {
        memory(text).map(Self)
    }
}

/// Formats bytes in the largest unit with an integer value.
pub(in crate::cli) fn bytes_text(bytes: u64) -> String {
    let (size, unit) = match bytes {
        0..1024 => return format!("{bytes} bytes"),
        1024..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    format!("{:.1} {unit}", bytes as f64 / size)
}

impl FromText for Loss {
    fn from_text(text: &str) -> Result<Self, String> {
        loss(text)
    }
}

impl FromText for LossReduction {
    fn from_text(text: &str) -> Result<Self, String> {
        reduction(text)
    }
}
