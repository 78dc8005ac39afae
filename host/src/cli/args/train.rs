//! The flags of `damper train`.

use crate::cli::args::data::{DataArgs, NonFiniteArgs, NormalizeArgs, TestMetricsArgs};
use crate::cli::args::flags::number::{float32, path, whole};
use crate::cli::args::flags::with_flags;
use crate::cli::args::machine::MachineArgs;
use crate::cli::args::method::MethodArgs;
use crate::cli::args::model::ModelArgs;
use crate::cli::args::model::Size;
use crate::cli::args::optimizer::OptimizerArgs;
use crate::cli::args::text::{FromText, Text};
use crate::cli::{Failure, number32};
use clap::{Args, ValueEnum};
use damper_accounting::Accountant;
use damper_accounting::factor::Objective;
use damper_core::average::Averaging;
use damper_data::Augment;
use damper_edit::network::Network;
use damper_grad::{Loss, Readout};
use damper_train::{NoiseCorrelation, UsedDefault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

pub(super) const AFTER_HELP: &str = "\
Example, handwritten digits in seconds:
  damper train onnx-models/digits-cnn.onnx onnx-models/digits --epsilon 3

The same with all settings:
  damper train onnx-models/digits-cnn.onnx --data idx:onnx-models/digits \\
    --epsilon 3 --delta 1e-5 --batch-size 128 --epochs 40 \\
    --optimizer momentum --lr 1 --clip 0.1 --out run

The same from a file of flags without their dashes, with another budget:
  damper train run.toml --epsilon 1
where run.toml is
  model = \"onnx-models/digits-cnn.onnx\"
  data = \"idx:onnx-models/digits\"
  epsilon = 3.0
  delta = 1e-5
  batch-size = 128
  epochs = 40
  optimizer = \"momentum\"
  lr = 1.0
  clip = 0.1
  out = \"run\"
Its paths are relative to run.toml; what is read may also lie in the working
directory.

A baseline without privacy, marked so in all it writes, with a learning rate of
its own (of run.toml, epsilon, delta and clip do not count then):
  damper train run.toml --not-private --lr 0.1 --out baseline

The folder --out then holds model.onnx, report.html, report.json, statement.json,
events.json and metrics.csv. Epsilon covers the training samples in them, and the
held-out samples with --test-metrics private only; it does not cover `seconds`.
The private folder checkpoint/ is as secret as the data.

A run that Ctrl-C, a kill, a full disk or a power cut has stopped goes on with
  damper train --resume run
and ends with the same bits. Its state is in checkpoint/ with the key of its noise,
until the run is finished. Ctrl-C once ends the run after its step and writes the
model so far, twice ends it at once. From the first paid step on the ledger in
checkpoint/ counts against the data: damper epsilon DIR gives its epsilon.";

/// Trains a model with differential privacy.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
// The data may be given by place.
#[command(allow_negative_numbers = true, mut_arg("data", |arg| arg.required(false)))]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct TrainArgs {
    /// The model, exported as .onnx, or a file of flags, run.toml, which flags given here override. With --model the
    /// samples
    #[arg(value_name = "MODEL.onnx|RUN.toml")]
    #[serde(skip)]
    pub(in crate::cli) first: Option<PathBuf>,
    /// The samples, as --data takes them
    #[arg(value_name = "DATA")]
    #[serde(skip)]
    pub(in crate::cli) second: Option<String>,
    /// The model by flag, or a network by name, which is sized from the data: linear, mlp:64,32, cnn, bag or lstm:64.
    /// Then the run starts from the file initial.onnx in --out, drawn from --init-seed
    #[arg(long, value_name = "MODEL.onnx|NETWORK")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    pub(in crate::cli) model: Option<PathBuf>,
    /// Lines about what was found by the paths of the data and made of their sizes.
    #[arg(skip)]
    #[serde(skip)]
    pub(in crate::cli) found: Vec<String>,
    /// Defaults that were filled in.
    #[arg(skip)]
    #[serde(skip)]
    pub(in crate::cli) defaults: Vec<UsedDefault>,
    /// Keeps a copy of the model in the private folder, from which a resumed run reads it: for programs whose file is
    /// temporary.
    #[arg(long, hide = true)]
    #[schemars(skip)]
    pub(in crate::cli) copy_model: bool,
    /// Folder for the outputs, which is made, and must not be there or be empty [default: the next free number in
    /// damper-runs]
    #[arg(long, value_name = "DIR")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    out: Option<PathBuf>,
    /// Continues the run in DIR that Ctrl-C, a kill or an error stopped, with its own settings. --quiet, --json,
    /// --workers and --checkpoint-every may be given as well
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub(in crate::cli) resume: Option<PathBuf>,
    /// Seconds between two writes of the state for --resume, into the private folder DIR/checkpoint. 0: after each step
    /// [default: 60]
    #[arg(long, value_name = "SECONDS")]
    checkpoint_every: Option<Text<Seconds>>,
    /// Keeps no state for --resume, and so no key on the disk: a run that stops cannot be resumed
    #[arg(long)]
    pub(in crate::cli) no_checkpoint: bool,
    /// If MPI has started several processes, each holds its shard of the training samples alone. While it reads, all
    /// samples are in a file in --cache, and then those of its shard in memory, up to --data-memory
    #[arg(long)]
    pub(in crate::cli) shard_data: bool,
    /// Trains, though a launcher has started several such processes that damper does not join, as torchrun does: each
    /// trains a model of its own, and their epsilons add up
    #[arg(long)]
    pub(in crate::cli) alone: bool,
    /// Prints the report as one JSON object on standard output, and nothing else there
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// No progress on standard error (errors and warnings still come)
    #[arg(long)]
    pub(in crate::cli) quiet: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) data: DataArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) test_metrics: TestMetricsArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) normalize: NormalizeArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) non_finite: NonFiniteArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) privacy: PrivacyArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) method: MethodArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) optimizer: OptimizerArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) options: ModelArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) machine: MachineArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) progress: ProgressArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(in crate::cli) recording: RecordingArgs,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Privacy")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct PrivacyArgs {
    /// The budget: the noise is chosen so that epsilon of the whole run is at most this
    #[arg(long, value_name = "E")]
    pub(in crate::cli) epsilon: Option<f64>,
    /// Standard deviation of the noise in units of the clip, instead of --epsilon
    #[arg(long, value_name = "S")]
    pub(in crate::cli) noise_multiplier: Option<f64>,
    /// Noise by equation 6 of ADP for its own epsilon (a sixteenth of its theorem's), instead of --epsilon. The claim
    /// is the accountant's epsilon of that noise
    #[arg(long, value_name = "E")]
    pub(in crate::cli) equation_6: Option<f64>,
    /// Trains the same without privacy, as a baseline: no clipping, no noise, no epsilon, and every output is marked.
    /// The draws are Poisson and the optimizer is the same. The best learning rate is usually different
    #[arg(long)]
    pub(in crate::cli) not_private: bool,
    /// Delta, well below 1 / number of samples [default: a power of ten by that number, 1e-5 at most]
    #[arg(long, value_name = "D")]
    pub(in crate::cli) delta: Option<f64>,
    /// Accountant: tight by privacy loss distributions (`pld`), or Rényi divergences (`rdp`) [default: pld]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) accountant: Option<Text<Accountant>>,
    /// Lets through a delta of 1 / number of samples and more
    #[arg(long)]
    pub(in crate::cli) allow_large_delta: bool,
    /// Largest Euclidean norm of one sample's gradient, over all trained parameters. If the method adapts it, the first
    /// value [default: 1. Without --lr, 0.1 for
    /// integer inputs and for --optimizer sgd]
    #[arg(long, value_name = "C", value_parser = number32)]
    #[serde(with = "float32")]
    #[schemars(with = "Option<f32>")]
    pub(in crate::cli) clip: Option<f32>,
    /// Declared number of samples instead of the counted number, which then stays out of every output. The sampling
    /// rate becomes batch size / N0, and the batch size is a divisor, not the expected number of samples
    #[arg(long, value_name = "N0")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) dataset_size: Option<u64>,
    /// Sampling of a step: `poisson`, each sample independently. `shuffled`, batches of a fixed size: sampling gains
    /// nothing, and an epoch is accounted as one event at a rate of 1. `min-separation`, the same batches each epoch.
    /// `cyclic-poisson`, independently from one of --groups groups in turn, so that a group's samples come at every
    /// G-th step [default: poisson]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) sampler: Option<SamplerArg>,
    /// Groups of --sampler cyclic-poisson [default with --noise-correlation banded:B: B]
    #[arg(long, value_name = "G")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) groups: Option<NonZeroU32>,
    /// Noise of successive steps that partly cancels in their sum: `lambda:P/Q`, one step back. `blt:D`, D buffers for
    /// each parameter. Both with --sampler min-separation. `banded:B`, B bands, with it or with cyclic-poisson. The run
    /// is accounted as a whole [default: none]
    #[arg(long, value_name = "none|lambda:P/Q|blt:D|banded:B")]
    pub(in crate::cli) noise_correlation: Option<Text<NoiseCorrelation>>,
    /// Objective of --noise-correlation blt and banded: the noise of the sum over all steps (`max`), or of the sums up
    /// to each step (`mean`) [default: mean]
    #[arg(long, value_name = "max|mean")]
    pub(in crate::cli) noise_objective: Option<Text<Objective>>,
    /// Truncates Poisson draws of more than M samples to M, and takes the cost out of delta. Memory does not need it: a
    /// draw of any size is split over physical batches
    #[arg(long, value_name = "M")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) truncate: Option<u64>,
    /// `discrete`: integers on a grid, exact. `continuous`: floats, not exact, for comparison [default: discrete]
    #[arg(long, value_name = "KIND")]
    pub(in crate::cli) noise: Option<NoiseArg>,
    /// Clipping of gradients. `per-sample`: each sample's gradient, by damper. `clipped-sum`: a chunk's, by the backend
    /// in its floats, not exact and with --noise continuous only, for large models [default: per-sample]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) readout: Option<Text<Readout>>,
    /// The clip is 2^BITS grid units [default: 20]
    #[arg(long, value_name = "BITS")]
    pub(in crate::cli) grid_bits: Option<u32>,
    /// Charges the whole plan against the budget of a data set, a file that `damper budget` makes, before data is read.
    /// A run that would exceed the limit is refused
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    pub(in crate::cli) budget: Option<PathBuf>,
    /// With --budget: number of training samples, which determines the plan before data is read. Must be that of the
    /// data
    #[arg(long, value_name = "N")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) samples: Option<u64>,
    /// Makes the run a simulation that can be repeated: its noise is known, so nothing of it is private
    #[arg(long, value_name = "SEED")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) seed: Option<u64>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Training")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct TrainingArgs {
    /// Constant divisor of the noisy sum. Without --dataset-size also the expected number of samples in a draw
    /// [default: 8 times the root of the number of samples]
    #[arg(long, value_name = "B")]
    pub(in crate::cli) batch_size: Option<u32>,
    /// Passes over the data: there are epochs * samples / batch size steps [default: 40, fewer above 25,000 samples]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) epochs: Option<f64>,
    /// Takes the mean gradient over K random views of each picture and clips that. Views: cropPIXELS shifts a picture
    /// and mirrors the missing part, shiftPIXELS repeats the edge, flip mirrors half of the views. Costs K times the
    /// computing, and no privacy
    #[arg(long, value_name = "K:crop4,flip")]
    pub(in crate::cli) augment: Option<Text<Augment>>,
    /// Computes the layers before the first trained weight once for all samples, and keeps up to SIZE of their values
    /// in memory, such as 4GiB. Each step then runs only the other layers. The values are as secret as the data
    #[arg(long, value_name = "SIZE")]
    pub(in crate::cli) cache_frozen: Option<Text<Size>>,
    /// Evaluates and writes a mean of the parameters after each step instead of the last parameters, at no privacy
    /// cost. START: over the steps after the first START of all, from 0 to below 1. With `,lr` each step weighs as much
    /// as its learning rate. ema:DECAY: an exponential moving average, as ema:0.99. poly:POWER: weights that grow with
    /// the power of the step, as poly:8
    #[arg(long, value_name = "START[,lr]|ema:DECAY|poly:POWER", allow_hyphen_values = true)]
    pub(in crate::cli) average: Option<Text<Averaging>>,
    /// Evaluates on the held-out samples every EPOCHS epochs, and at the end
    #[arg(long, value_name = "EPOCHS")]
    pub(in crate::cli) eval_every: Option<f64>,
    /// Ends the run after N evaluations in a row that do not improve on the best before. Needs --eval-every. Epsilon
    /// stays that of all planned steps
    #[arg(long, value_name = "N")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) stop_early: Option<NonZeroU32>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Progress")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct ProgressArgs {
    /// Appends a line of JSON to FILE for each event: steps with epsilon so far, evaluations, warnings, states, the end
    /// (see docs/events.md). The file events.json in the output folder is something else: the events that determine
    /// epsilon
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    pub(in crate::cli) events: Option<PathBuf>,
    /// Writes held-out accuracy and loss, and epsilon so far, for TensorBoard
    #[arg(long, value_name = "DIR")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    pub(in crate::cli) tensorboard: Option<PathBuf>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Recording")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct RecordingArgs {
    /// Records the run in FILE, which must not be there, to be replayed anywhere by `damper replay`. As secret as the
    /// data: it holds the gradient of every sample drawn and the key of the noise. Only its owner can read it. Until it
    /// is complete it has another name in the same folder, .damper-FILE.part, from which a resumed run continues
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    pub(in crate::cli) record: Option<PathBuf>,
    /// Refuses a recording that is expected to be larger [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(in crate::cli) record_limit: Option<Text<Size>>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum SamplerArg {
    Poisson,
    Shuffled,
    CyclicPoisson,
    MinSeparation,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum NoiseArg {
    Discrete,
    Continuous,
}

/// A duration in seconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Seconds(f64);

impl FromText for Seconds {
    fn from_text(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok().filter(|seconds| (0.0..1e9).contains(seconds));
        seconds.map(Self).ok_or_else(|| "give seconds, from 0".into())
    }
}

impl TrainArgs {
    /// Returns the output folder.
    pub(in crate::cli) fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new(""))
    }

    /// Returns the network that the model's setting names, unless it is a file.
    pub(in crate::cli) fn network(&self) -> Result<Option<Network>, Failure> {
        // A missing file without an end or a folder is probably meant as a network. A file with a network's name can be
        // given as ./linear.
        let is_meant = |name: &str| !name.contains(['.', '/', '\\']) && !Path::new(name).exists();
        let model = self.model.as_deref().and_then(Path::to_str);
        let Some(name) = model.filter(|name| Network::is_named(name) || is_meant(name)) else {
            return Ok(None);
        };
        name.parse().map(Some).map_err(|problem| Failure::usage(format!("`model` {name}: {problem}")))
    }

    /// Returns a line about the scale of a table, unless settings give it. It depends on settings alone.
    pub(in crate::cli) fn unscaled(&self) -> Option<String> {
        let is_open = !self.data.is_scaled() && self.normalize.choice().is_none();
        let labels = match self.options.loss() {
            Loss::Mse | Loss::L1 | Loss::Huber => ", and so is the label",
            _ => "",
        };
        (self.data.is_table() && is_open).then(|| {
            with_flags(&format!(
                "data: the features are taken as they are{labels}; clipped gradients need columns of about -1 to 1: scale others by public \
                 constants, with `scale` COLUMN=MEAN,STD or `normalize`"
            ))
        })
    }

    /// Returns true if the output folder is given.
    pub(in crate::cli) fn has_out(&self) -> bool {
        self.out.is_some()
    }

    /// Sets the output folder.
    pub(in crate::cli) fn set_out(&mut self, out: PathBuf) {
        self.out = Some(out);
    }

    /// Returns the seconds between two writes of the state.
    pub(in crate::cli) fn checkpoint_every(&self) -> f64 {
        self.checkpoint_every.as_deref().map_or(60.0, |Seconds(seconds)| *seconds)
    }
}

pub(in crate::cli) fn averaging(text: &str) -> Result<Averaging, String> {
    let number = |text: &str, what| text.trim().parse().map_err(|_| format!("give {what}"));
    let built = if let Some(decay) = text.strip_prefix("ema:") {
        Averaging::exponential(number(decay, "ema:DECAY, a number above 0 and below 1")?)
    } else if let Some(power) = text.strip_prefix("poly:") {
        Averaging::polynomial(number(power, "poly:POWER, a number from 0 to 1000")?)
    } else {
        let (start, weight) = text.split_once(',').map_or((text, None), |(start, weight)| (start, Some(weight.trim())));
        let built = Averaging::new(number(start, "START, a number from 0 to below 1, or ema:DECAY, or poly:POWER")?);
        match weight {
            None => built,
            Some("lr") => built.map(Averaging::by_learning_rate),
            Some(_) => return Err("give START or START,lr".into()),
        }
    };
    built.map_err(|error| error.to_string())
}

impl FromText for Averaging {
    fn from_text(text: &str) -> Result<Self, String> {
        averaging(text)
    }
}
