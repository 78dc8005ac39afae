//! The report of a run, `report.json`: its fields and what they mean.

use super::early_stop::EarlyStop;
use super::method::{GaLoreReport, LoraReport, MethodReport, NormStepReport, OptimizerReport};
use super::non_finite::NonFiniteReport;
use damper_accounting::{Accountant, Sampler, Truncation};
use damper_budget::EXACT;
use damper_train::{ClassMetrics, LastIterate, files};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Of a sample's gradient, by the test before the run.
pub(super) const TESTED: &str = "tested for this model on this machine before the run, on made-up samples only: the same bits in another row of \
                      the batch and next to other samples";
pub(crate) const REFUTED: &str = "NOT so: before the run, on made-up samples, its bits changed with its row or with the other samples of the \
                       batch; a physical batch of 1 gives each sample a batch of its own";
pub(super) const NOT_TESTED: &str =
    "not shown: the backend sums clipped gradients, and there is no sample's gradient to compare";

/// The report of a run. The fixed keys come first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrainReport {
    /// ε of the whole run, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// σ over the clip as it ran, all releases of a draw together; under a noise schedule that of the draw with the least
    /// noise.
    pub noise_multiplier: f64,
    /// The rate, as the nearest float to the exact fraction of [`Privacy::sampling_rate_exact`].
    pub sampling_rate: f64,
    /// Steps, each of which released one gradient: draws, or batches.
    pub steps: u32,
    /// `pld` or `rdp`.
    pub accountant: Accountant,
    /// Figures on the held-out samples.
    #[serde(flatten)]
    pub test: TestFigures,
    /// Time, backend and the digest of the parameters.
    #[serde(flatten)]
    pub execution: Execution,
    /// `private`, or `simulation` where the user gave the seed.
    pub run: Cow<'static, str>,
    /// The claims and assumptions of the figures.
    pub privacy: Privacy,
    /// The noise mechanism.
    pub mechanism: MechanismReport,
    /// The method.
    pub method: MethodReport,
    /// The training settings.
    pub training: Training,
    /// The names of the data's columns and classes, and notes on how its files were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataReport>,
    /// The samples that `test_accuracy` and `test_loss` are of.
    pub held_out: Option<HeldOutRecord>,
    /// The released means and deviations that features are normalised by, if the run released some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalize: Option<NormalizeReport>,
    /// The released number of training samples without a finite gradient, if the run was to release it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_finite: Option<NonFiniteReport>,
    /// The early stop, if the run ended before its plan did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<EarlyStop>,
    /// The versions of the software.
    pub versions: Versions,
    /// The recording of the run, where it was recorded.
    pub recording: Option<RecordingReport>,
    /// The settings as they were given, one argument each; empty where the command did not run it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The warnings to the user.
    pub warnings: Vec<String>,
}

/// Figures on the held-out samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestFigures {
    /// Share of right answers; none without held-out samples, or if the loss has no classes.
    #[serde(rename = "test_accuracy")]
    pub accuracy: Option<f64>,
    /// Mean loss: of a class, a token or, with other losses, a sample.
    #[serde(rename = "test_loss")]
    pub loss: Option<f64>,
    /// `e` to that power, if a sample has several labels: the measure of a language model.
    #[serde(rename = "test_perplexity")]
    pub perplexity: Option<f64>,
}

/// Time, backend and result of a training.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Execution {
    /// Whole seconds of training, evaluation included, rounded up. How long a step takes depends on the samples drawn, so ε does
    /// not cover this figure.
    pub seconds: f64,
    /// `tract`, `ort` or `cuda`: what really ran.
    pub backend: Cow<'static, str>,
    /// The nodes of the run's graphs that ran on the processor, each as its operator and its name. Absent if the backend has no device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_nodes: Option<Vec<String>>,
    /// SHA-256 of the trained parameters: f32, little-endian, in the gradient graph's order.
    pub params_digest: String,
}

/// Public facts of the data's files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataReport {
    /// The names of the features' columns, in the order of the model's input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The name of the label's column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The names of the classes, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Columns that were matched by place, or left out, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl TrainReport {
    /// As `report.json` holds it, with a last newline.
    pub fn to_json(&self) -> String {
        files::json(self).expect("a report has string keys and finite numbers")
    }
}

/// A run's recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordingReport {
    /// The parameters' digest as `damper replay` and every board that plays the recording say it.
    pub params: String,
    /// How secret it is.
    pub secrecy: Cow<'static, str>,
}

/// The claims and assumptions of the figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Privacy {
    /// The neighbouring relation: whose presence ε hides.
    pub neighbours: Cow<'static, str>,
    /// The meaning of one sample; none in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Cow<'static, str>>,
    /// N, public: the number declared, or else the one counted.
    pub samples: u64,
    /// The number declared, where it was. The one counted is then in no output.
    pub declared_samples: Option<u64>,
    /// `poisson` or `shuffled`.
    #[serde(default)]
    pub sampler: Sampler,
    /// The sampler.
    pub sampling: Cow<'static, str>,
    /// Number of priced events: one a draw, or one an epoch of shuffled batches.
    #[serde(default)]
    pub events: u64,
    /// At which size draws were cut, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// The rate, exactly: `k/2^53`.
    pub sampling_rate_exact: String,
    /// δ compared with N.
    pub delta_note: String,
    /// The computation of ε.
    pub accountant_note: Cow<'static, str>,
    /// The Rényi order that gave ε; none where privacy loss distributions did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<f64>,
    /// `exact` or `float`.
    pub path: Cow<'static, str>,
    /// The path in words.
    pub path_note: Cow<'static, str>,
    /// The settings fixed before the data was used, and those that followed from releases.
    pub fixed_beforehand: String,
    /// What ε does not protect because it is treated as public.
    pub taken_as_public: Cow<'static, str>,
    /// Other runs are not counted.
    pub composition: Cow<'static, str>,
    /// The outputs that ε covers.
    pub covered: Cow<'static, str>,
    /// What ε does not cover, and what was not released.
    pub not_covered: Cow<'static, str>,
    /// Which iterate `model.onnx` is.
    pub released_model: Cow<'static, str>,
}

impl Privacy {
    /// Returns true if the figures are of what ran, bit for bit.
    pub(crate) fn is_exact(&self) -> bool {
        self.path == EXACT
    }

    /// N for the rate.
    pub(crate) fn public_samples(&self) -> u64 {
        self.declared_samples.unwrap_or(self.samples)
    }
}

/// The noise mechanism.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MechanismReport {
    /// `discrete-gaussian` or `continuous-gaussian`.
    pub name: Cow<'static, str>,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// The clip is `2^grid_bits` grid units, on the exact path.
    pub grid_bits: Option<u32>,
    /// The threshold C on a sample's gradient, in the Euclidean norm over all trained parameters; the first step's, where
    /// it is learned.
    pub clip: f32,
    /// σ over the clip of the gradient's noise, before a noise schedule scales it.
    pub gradient_multiplier: f64,
    /// The correlation of the noise of successive steps; σ is then of the noise before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<CorrelationReport>,
    /// σ of the noise on each released count, where counts are released.
    pub count_noise_multiplier: Option<f64>,
    /// The constant that the noisy sum is divided by; where the number of samples was declared, no expected number of samples.
    pub expected_batch: u32,
    /// The generator of noise and draws.
    pub generator: Cow<'static, str>,
    /// The seed of a simulation; that of a private run is never told.
    pub seed: Option<u64>,
}

/// Correlated noise of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CorrelationReport {
    /// As the command takes it: `blt:2`.
    pub noise_correlation: String,
    /// S, the most that one sample moves the sums times the matrix, in clips; with cyclic draws that of one draw.
    pub sensitivity: f64,
    /// The least distance of two steps of a sample, or the groups of cyclic draws.
    pub separation: u32,
    /// The most steps of a sample.
    pub participations: u32,
    /// The part of the price that is due to rounding on the grid.
    pub rounding_share: f64,
}

/// The training settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Training {
    /// The method's name, as the command line takes it.
    pub method: String,
    /// The optimizer and its settings.
    pub optimizer: OptimizerReport,
    /// Step sizes from the norms of released gradients.
    pub adagrad_norm: Option<NormStepReport>,
    /// A low-rank projection of the matrices.
    pub galore: Option<GaLoreReport>,
    /// Low-rank adapters, of which alone the parameters are, beside what else is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraReport>,
    /// The learning rate.
    pub lr: f64,
    /// Passes over the data that were asked for.
    pub epochs: f64,
    /// The random views of each sample's pictures, as `8:crop4,flip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<String>,
    /// The loss.
    pub loss: String,
    /// `mean` or `sum` over a sample's tokens or elements; none where the model computes its loss.
    pub reduction: Option<Cow<'static, str>>,
    /// How much labels count, if not all alike: class weights, label smoothing, focal loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_weights: Option<String>,
    /// The public mean and standard deviation by which labels were scaled. Losses on held-out samples, but for bounds of private ones, and
    /// the model's output are in the labels' own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_scale: Option<String>,
    /// The model output that feeds it.
    pub output: String,
    /// The public seed of the initial parameters, where the model file leaves them out.
    pub init_seed: Option<u64>,
    /// Number of trained numbers.
    pub parameters: usize,
    /// The tensors of the trained model that training changed, in the order of [`Execution::params_digest`].
    #[serde(default)]
    pub tensors: Vec<String>,
    /// Rows of the one physical batch shape.
    pub physical_batch: usize,
    /// Threads.
    pub workers: usize,
}

/// The samples that the metrics are of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOutRecord {
    /// Their number.
    pub samples: usize,
    /// The unit that accuracy and loss are averaged over: `samples`, or their `labels` if a sample has several (tokens).
    pub counted: Cow<'static, str>,
    /// Says whether ε protects the held-out samples.
    pub public: Cow<'static, str>,
    /// `exact`, `private` or `none`.
    #[serde(default = "exact")]
    pub metrics: Cow<'static, str>,
    /// The noise of private metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<HeldOutNoise>,
    /// Figures by class at the end of the run, exact functions of these samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class: Option<ClassMetrics>,
    /// Exact figures of the last parameters, where a mean of parameters is what is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_iterate: Option<LastIterate>,
    /// Why there are none by class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class_missing: Option<Cow<'static, str>>,
}

/// Released means and deviations of the features.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NormalizeReport {
    /// As `normalize` takes them: what the model's inputs are to be scaled by.
    pub constants: String,
    /// The public bounds, in the same form.
    pub bounds: String,
    /// σ of the release over the bound on what one sample adds.
    pub noise_multiplier: f64,
    /// Standard deviation of the noise on each mean, in halves of its column's range.
    pub noise: f64,
    /// ε of the release alone, at the run's δ.
    pub epsilon: f64,
}

/// The value in records of earlier versions.
fn exact() -> Cow<'static, str> {
    "exact".into()
}

/// The noise of private metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOutNoise {
    /// σ on the number of right answers, and on the sum of losses over `loss_bound`: in samples.
    pub noise_multiplier: f64,
    /// σ over the sensitivity of one evaluation, its sums together.
    pub joint_noise_multiplier: f64,
    /// A sample's loss counts as so much at most, above and below zero.
    pub loss_bound: f32,
    /// Evaluations charged.
    pub evaluations: u32,
    /// ε of all of them at the run's δ.
    pub epsilon: f64,
}

/// The versions of the software.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Versions {
    /// damper's version.
    pub damper: Cow<'static, str>,
    /// The number of the contract on bits.
    pub bits_contract: u32,
    /// The backend's version, as it reports it.
    pub backend: String,
    /// The operators of the graphs that it ran: `own` (those of the ONNX standard and damper's) or `standard`.
    pub operators: Cow<'static, str>,
    /// Says whether a sample's gradient was shown not to depend on its row, chunk and neighbours.
    pub sample_independence: Cow<'static, str>,
    /// Processor and system.
    pub platform: String,
}

impl Versions {
    /// A backend's name, version and operators.
    pub(crate) fn of_backend(&self, name: &str) -> String {
        format!("{name} {} ({} operators)", self.backend, self.operators)
    }
}
