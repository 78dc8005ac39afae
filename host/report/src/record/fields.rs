//! Fields of a run's report, `report.json`.

use super::early_stop::EarlyStop;
use super::method::{GaLoreReport, LoraReport, MethodReport, NormStepReport, OptimizerReport};
use super::non_finite::NonFiniteReport;
use super::origin::RunOrigin;
use damper_accounting::{Accountant, Sampler, Truncation};
use damper_budget::EXACT;
use damper_train::{ClassMetrics, LastIterate, files};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Independence of a sample's gradient, by the test before the run.
pub(super) const TESTED: &str = "tested for this model on this machine before the run, on made-up samples only: the same bits in another row of \
                      the batch and next to other samples";
pub(crate) const REFUTED: &str = "NOT so: before the run, on made-up samples, its bits changed with its row or with the other samples of the \
                       batch; a physical batch of 1 gives each sample a batch of its own";
pub(super) const NOT_TESTED: &str =
    "not shown: the backend sums clipped gradients, and there is no sample's gradient to compare";

/// Report of a run. The fixed keys come first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrainReport {
    /// ε of the whole run, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// σ over the clip as used, with all releases of a step together. Under a noise schedule, the value of the step
    /// with the least noise.
    pub noise_multiplier: f64,
    /// Sampling rate, as the nearest float to the exact fraction of [`Privacy::sampling_rate_exact`].
    pub sampling_rate: f64,
    /// Number of steps. Each released one gradient of a Poisson draw or a batch.
    pub steps: u32,
    /// `pld` or `rdp`.
    pub accountant: Accountant,
    /// Figures on the held-out samples.
    #[serde(flatten)]
    pub test: TestFigures,
    /// Time, backend and the digest of the parameters.
    #[serde(flatten)]
    pub execution: Execution,
    /// `private`, or `simulation` if the user gave the seed.
    pub run: Cow<'static, str>,
    /// Names of the model and the data, and the day. `None` if the command did not start the run, or in a record of an
    /// earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    /// Claims and assumptions of the figures.
    pub privacy: Privacy,
    /// Noise mechanism.
    pub mechanism: MechanismReport,
    /// The method.
    pub method: MethodReport,
    /// Training settings.
    pub training: Training,
    /// Names of the data's columns and classes, and notes on how its files were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataReport>,
    /// Samples of `test_accuracy` and `test_loss`.
    pub held_out: Option<HeldOutRecord>,
    /// Released means and deviations for the normalisation of features, if the run released any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalize: Option<NormalizeReport>,
    /// Released number of training samples without a finite gradient, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_finite: Option<NonFiniteReport>,
    /// Early stop, if the run ended before its plan did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<EarlyStop>,
    /// Versions of the software.
    pub versions: Versions,
    /// Recording of the run, if it was recorded.
    pub recording: Option<RecordingReport>,
    /// Settings as given, an argument each. Empty if the command did not start the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Warnings to the user.
    pub warnings: Vec<String>,
}

/// Figures on the held-out samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestFigures {
    /// Accuracy. `None` without held-out samples, or if the loss has no classes.
    #[serde(rename = "test_accuracy")]
    pub accuracy: Option<f64>,
    /// Mean loss for each class label or token. With other losses, for each sample.
    #[serde(rename = "test_loss")]
    pub loss: Option<f64>,
    /// Exponential of the loss, if a sample has several labels: the measure of a language model.
    #[serde(rename = "test_perplexity")]
    pub perplexity: Option<f64>,
    /// R², if the loss is the mean squared error and a sample has one label.
    #[serde(rename = "test_r_squared", default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
}

/// Time, backend and result of training.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Execution {
    /// Training time in seconds, including evaluation, rounded up. The time of a step depends on the samples drawn, so
    /// ε does not cover this figure.
    pub seconds: f64,
    /// Backend that ran: `tract`, `ort` or `cuda`.
    pub backend: Cow<'static, str>,
    /// Nodes of the run's graphs that ran on the processor, each as its operator and its name. Absent if the backend
    /// has no device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_nodes: Option<Vec<String>>,
    /// SHA-256 of the trained parameters: f32, little-endian, in the gradient graph's order.
    pub params_digest: String,
}

/// Public facts about the data's files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataReport {
    /// Names of the features' columns, in the order of the model's input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Name of the label's column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Names of the classes, in the order of their indices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Columns that were matched by position, or left out, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl TrainReport {
    /// Returns the content of `report.json`, with a final newline.
    pub fn to_json(&self) -> String {
        files::json(self).expect("a report has string keys and finite numbers")
    }
}

/// Recording of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordingReport {
    /// Digest of the parameters, as printed by `damper replay` and by every board that replays the recording.
    pub params: String,
    /// Required secrecy of the recording.
    pub secrecy: Cow<'static, str>,
}

/// Claims and assumptions of the figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Privacy {
    /// Neighbouring relation that ε is for.
    pub neighbours: Cow<'static, str>,
    /// Meaning of one sample. `None` in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Cow<'static, str>>,
    /// N, public: the declared number, or else the counted number.
    pub samples: u64,
    /// Declared number, if there is one. The counted number is then in no output.
    pub declared_samples: Option<u64>,
    /// `poisson` or `shuffled`.
    #[serde(default)]
    pub sampler: Sampler,
    /// Description of the sampler.
    pub sampling: Cow<'static, str>,
    /// Number of accounted events: one for each Poisson draw, or one for each epoch of shuffled batches.
    #[serde(default)]
    pub events: u64,
    /// Size at which draws were truncated, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// Exact sampling rate: `k/2^53`.
    pub sampling_rate_exact: String,
    /// δ compared with N.
    pub delta_note: String,
    /// Computation of ε.
    pub accountant_note: Cow<'static, str>,
    /// Rényi order that gave ε. `None` if privacy loss distributions gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<f64>,
    /// `exact` or `float`.
    pub path: Cow<'static, str>,
    /// Description of the path.
    pub path_note: Cow<'static, str>,
    /// Settings fixed before the data was used, and settings that followed from releases.
    pub fixed_beforehand: String,
    /// Values that ε does not protect because they are treated as public.
    pub taken_as_public: Cow<'static, str>,
    /// Statement that other runs are not counted.
    pub composition: Cow<'static, str>,
    /// Outputs that ε covers.
    pub covered: Cow<'static, str>,
    /// Outputs that ε does not cover, and values that were not released.
    pub not_covered: Cow<'static, str>,
    /// Iterate that `model.onnx` holds.
    pub released_model: Cow<'static, str>,
}

impl Privacy {
    /// Returns true if the figures describe the run bit for bit.
    pub(crate) fn is_exact(&self) -> bool {
        self.path == EXACT
    }

    /// Returns N for the sampling rate.
    pub(crate) fn public_samples(&self) -> u64 {
        self.declared_samples.unwrap_or(self.samples)
    }
}

/// Noise mechanism.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MechanismReport {
    /// `discrete-gaussian` or `continuous-gaussian`.
    pub name: Cow<'static, str>,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// Number of bits of the grid, on the exact path: the clip is `2^grid_bits` grid units.
    pub grid_bits: Option<u32>,
    /// Clipping threshold C on a sample's gradient, in the Euclidean norm over all trained parameters. The first
    /// step's, if it is adaptive.
    pub clip: f32,
    /// σ of the gradient's noise over the clip, before a noise schedule scales it.
    pub gradient_multiplier: f64,
    /// Correlation of the noise across steps. σ is then that of the noise before correlation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<CorrelationReport>,
    /// σ of the noise on each released count, if counts are released.
    pub count_noise_multiplier: Option<f64>,
    /// Divisor of the noisy sum. If the number of samples was declared, this is not the expected number of samples.
    pub expected_batch: u32,
    /// Generator of noise and draws.
    pub generator: Cow<'static, str>,
    /// Seed of a simulation. The seed of a private run is never disclosed.
    pub seed: Option<u64>,
}

/// Correlated noise of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CorrelationReport {
    /// As a value of the flag: `blt:2`.
    pub noise_correlation: String,
    /// Sensitivity, in clips: the largest effect of one sample on the sums times the matrix. Per draw with cyclic
    /// sampling.
    pub sensitivity: f64,
    /// Smallest distance of two steps of a sample, or the number of groups of cyclic draws.
    pub separation: u32,
    /// Largest number of steps of a sample.
    pub participations: u32,
    /// Share of the privacy cost that is due to rounding on the grid.
    pub rounding_share: f64,
}

/// Training settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Training {
    /// Name of the method on the command line.
    pub method: String,
    /// Optimizer and its settings.
    pub optimizer: OptimizerReport,
    /// Step sizes from the norms of released gradients.
    pub adagrad_norm: Option<NormStepReport>,
    /// Low-rank projection of the matrices.
    pub galore: Option<GaLoreReport>,
    /// Low-rank adapters. The trained parameters are those of the adapters, and other trained tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraReport>,
    /// Learning rate.
    pub lr: f64,
    /// Requested number of passes over the data.
    pub epochs: f64,
    /// Random views of each sample's images, as `8:crop4,flip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<String>,
    /// The loss.
    pub loss: String,
    /// `mean` or `sum` over a sample's tokens or elements. `None` if the model computes its loss.
    pub reduction: Option<Cow<'static, str>>,
    /// Weights of labels, if not all equal: class weights, label smoothing, focal loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_weights: Option<String>,
    /// Public mean and standard deviation that scaled the labels. Losses on held-out samples and the model's output are
    /// in the labels' own unit. Bounds of private losses are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_scale: Option<String>,
    /// Model output that feeds the loss.
    pub output: String,
    /// Public seed of the initial parameters, if the model file omits them.
    pub init_seed: Option<u64>,
    /// Number of trained parameters.
    pub parameters: usize,
    /// Tensors of the trained model that training changed, in the order of [`Execution::params_digest`].
    #[serde(default)]
    pub tensors: Vec<String>,
    /// Rows of the physical batch.
    pub physical_batch: usize,
    /// Number of threads.
    pub workers: usize,
}

/// Samples of the metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOutRecord {
    /// Number of samples.
    pub samples: usize,
    /// Unit of the mean accuracy and loss: `samples`, or their `labels` if a sample has several (tokens).
    pub counted: Cow<'static, str>,
    /// States if ε protects the held-out samples.
    pub public: Cow<'static, str>,
    /// `exact`, `private` or `none`.
    #[serde(default = "exact")]
    pub metrics: Cow<'static, str>,
    /// Noise of private metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<HeldOutNoise>,
    /// Figures by class at the end of the run, exact functions of these samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class: Option<ClassMetrics>,
    /// Exact figures of the last parameters, if a mean of parameters is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_iterate: Option<LastIterate>,
    /// Reason for missing figures by class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class_missing: Option<Cow<'static, str>>,
}

/// Released means and deviations of the features.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NormalizeReport {
    /// Scaling of the model's inputs, as a value of `normalize`.
    pub constants: String,
    /// Public bounds, in the same form.
    pub bounds: String,
    /// σ of the release over the bound on the contribution of one sample.
    pub noise_multiplier: f64,
    /// Standard deviation of the noise on each mean, in half ranges of its column.
    pub noise: f64,
    /// ε of the release alone, at the run's δ.
    pub epsilon: f64,
}

/// Value for records of earlier versions.
fn exact() -> Cow<'static, str> {
    "exact".into()
}

/// Noise of private metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOutNoise {
    /// σ on the number of correct predictions, and on the sum of losses over `loss_bound`, in samples.
    pub noise_multiplier: f64,
    /// σ over the sensitivity of one evaluation, with its sums together.
    pub joint_noise_multiplier: f64,
    /// Bound on the magnitude of a sample's loss.
    pub loss_bound: f32,
    /// Number of charged evaluations.
    pub evaluations: u32,
    /// ε of all evaluations at the run's δ.
    pub epsilon: f64,
}

/// Versions of the software.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Versions {
    /// Version of damper.
    pub damper: Cow<'static, str>,
    /// Number of the contract on bits.
    pub bits_contract: u32,
    /// Version that the backend reports.
    pub backend: String,
    /// Operators of the graphs that it ran: `own` (those of the ONNX standard and damper's) or `standard`.
    pub operators: Cow<'static, str>,
    /// States if a test showed that a sample's gradient does not depend on its row, chunk and neighbours.
    pub sample_independence: Cow<'static, str>,
    /// Processor and operating system.
    pub platform: String,
}

impl Versions {
    /// Returns the name, version and operators of a backend.
    pub(crate) fn of_backend(&self, name: &str) -> String {
        format!("{name} {} ({} operators)", self.backend, self.operators)
    }
}
