//! Training: from a model, a data set and a budget to a private model and its report.
//!
//! ```text
//! TrainConfig ─ prepare ─► Run (graph, data, rate, noise: all fixed before the first step) ─ steps ─► Outcome ─► DIR
//! ```
//!
//! The loop is `steps`; what each worker does with its share of a draw is `worker`. The core decides every bit of a
//! step; here are threads, files and the order of things.

pub mod aggregate;
pub mod audit;
pub mod budget;
pub(crate) mod choice;
pub(crate) mod course;
mod equation6;
pub(crate) mod evaluate;
pub mod files;
pub mod filter;
mod galore;
mod held_out;
pub mod init;
mod method;
pub(crate) mod observe;
mod odometer;
mod prepare;
mod prune;
mod recording;
mod rehearsal;
pub mod replay;
mod run_plan;
mod sampler;
mod steps;
mod store;
pub(crate) mod watched;
pub(crate) mod worker;

pub use choice::short;
pub use choice::{
    Clipping, DecayChoice, FilterChoice, LAGS, LearningRateChoice, NormStep, OptimizerChoice, PerSample, Rule,
    ThresholdChoice, ThresholdRule,
};
pub use galore::{Form, LowRank, forms};
pub use held_out::PrivateMetrics;
pub use method::Method;
pub use prepare::{Read, Source, plan, prepare, read, tuning_rate};
pub(crate) use prepare::{on_data, on_network};
pub use recording::{Record, recording_bytes};
pub use rehearsal::Independence;
pub use run_plan::{LEDGER, PLAN, RunPlan};
pub(crate) use steps::observed;
pub use steps::run;
pub use store::{paid_steps, pay_all};

use crate::files::FileError;
use crate::init::InitError;
use damper_accounting::{Accountant, AccountingError, Plan, Recorded, RunKind, Sampler, Truncation};
use damper_core::accounting::Rate;
use damper_core::average::Averaging;
use damper_core::error::ConfigError;
use damper_core::schedule::{AnyNoise, LearningRate};
use damper_core::threshold::CountNoise;
use damper_data::{DataError, Dataset};
use damper_grad::{DeriveOptions, GradGraph, Readout, Refusal};
use damper_onnx::graph::{Graph, GraphError};
use damper_onnx::pb::ModelProto;
use damper_runtime::{BackendError, Choice};
use std::num::NonZeroUsize;

/// What `damper train` was asked for. Everything in it is public but the samples of `data` and the seed of a private run.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// What bounds the loss of privacy.
    pub budget: Budget,
    /// δ.
    pub delta: f64,
    /// What prices the run.
    pub accountant: Accountant,
    /// Whether a δ of `1/N` and more is let through.
    pub allow_large_delta: bool,
    /// The declared size of a batch, `B`: the divisor, and with `N` the sampling rate.
    pub batch_size: u32,
    /// Passes over the data: `⌈epochs · N / B⌉` steps.
    pub epochs: f64,
    /// `N` for the sampling rate where it is to be declared rather than counted.
    pub dataset_size: Option<u64>,
    /// How the samples of a step are chosen.
    pub sampler: Sampler,
    /// Draws of more samples are cut to so many, which is paid for out of δ.
    pub truncate: Option<u64>,
    /// The private method.
    pub method: Method,
    /// The optimizer.
    pub optimizer: OptimizerChoice,
    /// How sums are kept and released.
    pub noise: Noise,
    /// What is read out of the gradient graph: each sample's gradient, which the core clips, or sums that the backend clipped in
    /// its floats, which takes continuous noise.
    pub readout: Readout,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// What runs the graphs.
    pub backend: Choice,
    /// A seed makes the run a simulation; without one, the key comes from the operating system.
    pub seed: Option<u64>,
    /// Rows of the one physical batch shape; as many as `memory` holds, up to sixteen, if not given.
    pub physical_batch: Option<NonZeroUsize>,
    /// Bytes that the tensors of one worker may take, as counted from the graph.
    pub memory: u64,
    /// Threads, each with a one-thread session; as many as there are processors if not given.
    pub workers: Option<NonZeroUsize>,
    /// What is evaluated and written: the mean of the parameters after these steps, or those after the last.
    pub average: Option<Averaging>,
    /// Evaluates on the held-out split every so many epochs, beside the end.
    pub evaluate_every: Option<f64>,
    /// What is released of the held-out rows.
    pub test_metrics: TestMetrics,
    /// Records the run.
    pub record: Option<Record>,
}

impl TrainConfig {
    /// With everything else as `damper train` has it where no flag says otherwise.
    #[must_use]
    pub fn new(budget: Budget, delta: f64, batch_size: u32, epochs: f64, method: Method) -> Self {
        Self {
            budget,
            delta,
            accountant: Accountant::default(),
            allow_large_delta: false,
            batch_size,
            epochs,
            dataset_size: None,
            sampler: Sampler::default(),
            truncate: None,
            method,
            optimizer: Rule::Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 }.into(),
            noise: Noise::Discrete,
            readout: Readout::default(),
            grid_bits: 20,
            backend: Choice::Auto,
            seed: None,
            physical_batch: None,
            memory: 2 << 30,
            workers: None,
            average: None,
            evaluate_every: None,
            test_metrics: TestMetrics::default(),
            record: None,
        }
    }
}

/// What bounds the loss of privacy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// ε at most this; the noise follows.
    Epsilon(f64),
    /// Noise of this many clips; ε follows.
    NoiseMultiplier(f64),
    /// Noise by ADP's equation 6 for its `ε̄`; ε follows from the accountant.
    Equation6(f64),
}

/// What is released of the held-out rows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum TestMetrics {
    /// Accuracy and loss, exact functions of rows that ε does not protect.
    #[default]
    Exact,
    /// Accuracy and loss with noise, charged: ε protects these rows too. A row's loss counts as `loss_bound` at most.
    Private {
        /// The public bound.
        loss_bound: f32,
    },
    /// Nothing.
    None,
}

/// How sums are kept and released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noise {
    /// Integers on a grid and the discrete Gaussian: exact.
    Discrete,
    /// Floats and the continuous Gaussian: not exact.
    Continuous,
}

/// A model made ready to be trained, with everything fixed that must be fixed before data is read.
#[derive(Clone)]
pub struct Run {
    /// The configuration.
    pub config: TrainConfig,
    /// The model as it was read.
    pub model: ModelProto,
    /// The public seed of its weights, where the file leaves them out.
    pub init_seed: Option<u64>,
    /// The graph that computes per-sample gradients.
    pub grad: GradGraph,
    /// The graph that computes clipped sums, where the backend clips.
    pub clipped: Option<GradGraph>,
    /// The model as a graph.
    pub graph: Graph,
    /// The loss; the output that feeds it is named.
    pub derive: DeriveOptions,
    /// The data.
    pub data: Dataset,
    /// Initial values of the trained parameters, flat, in `grad.parameters` order.
    pub params: Vec<f32>,
    /// Rows of the one physical batch shape.
    pub physical_batch: NonZeroUsize,
    /// The share of the samples that a step expects, exactly: the sampling rate of Poisson draws.
    pub rate: Rate,
    /// At which size draws are cut, where they are.
    pub truncation: Option<Truncation>,
    /// The δ at which the plan is priced: what truncation leaves of the one claimed.
    pub plan_delta: f64,
    /// Number of steps.
    pub steps: u32,
    /// The learning rate of each step.
    pub learning_rate: LearningRate,
    /// The noise of each step beside the mechanism's own.
    pub noise_schedule: AnyNoise,
    /// The multiplier of the gradient's noise that runs, before a noise schedule scales it.
    pub multiplier: f64,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// The noise of counts that each step releases beside its gradient.
    pub count_noise: Option<CountNoise>,
    /// Every draw with its noise: what is priced is what runs.
    pub plan: Plan,
    /// Whether the held-out rows are rows of the training file.
    pub held_out_of_training_file: bool,
    /// The noise of private metrics, where they are asked for and there are held-out rows.
    pub private_metrics: Option<PrivateMetrics>,
    /// The price of all steps; of private metrics, where that is larger.
    pub epsilon: f64,
    /// The Rényi order that gave it; none where privacy loss distributions did.
    pub order: Option<f64>,
    /// One line each for whoever starts the run, and for the report: functions of public figures alone.
    pub warnings: Vec<String>,
    /// One line each for whoever holds the data: what depends on its rows, and goes into no released file.
    pub warnings_of_data: Vec<String>,
}

/// The path of discrete noise.
pub const EXACT: &str = "exact";
/// The path of `--readout clipped-sum`.
pub const CLIPPED_BY_BACKEND: &str = "float, clipped by the backend";

/// The path of a run, as [`Run::path`] names it.
fn path(noise: Noise, readout: Readout) -> &'static str {
    match (noise, readout) {
        (_, Readout::ClippedSum) => CLIPPED_BY_BACKEND,
        (Noise::Discrete, _) => EXACT,
        (Noise::Continuous, _) => "float",
    }
}

impl Run {
    /// Whether sums and noise are integers, or else how they are floats: `exact`, `float`, or `float, clipped by the backend`.
    pub fn path(&self) -> &'static str {
        path(self.config.noise, self.config.readout)
    }

    /// Whether the run is private, or a simulation.
    pub fn kind(&self) -> RunKind {
        if self.config.seed.is_some() { RunKind::Simulation } else { RunKind::Private }
    }

    /// The rate that is priced: of a shuffled epoch 1.
    pub fn priced_rate(&self) -> Rate {
        match self.config.sampler {
            Sampler::Poisson => self.rate,
            Sampler::Shuffled => Rate::ONE,
        }
    }
}

/// What training gave: all of it released or public.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trained parameters, flat, in `grad.parameters` order.
    pub params: Vec<f32>,
    /// Steps released: as many as there were draws.
    pub steps: u32,
    /// Each draw's event, from which ε follows.
    pub recorded: Recorded,
    /// Seconds of training, evaluation included.
    pub seconds: f64,
    /// Held-out figures, in time order; the last is the end's.
    pub evaluations: Vec<Evaluation>,
    /// Whether a sample's gradient was its own, in a test before the run.
    pub independence: Independence,
    /// Name of the backend that ran.
    pub backend: &'static str,
    /// Its version.
    pub backend_version: String,
    /// Threads that ran.
    pub workers: usize,
    /// The clip of a next step: a constant, or learned from released counts.
    pub clip: f32,
}

/// Figures on the held-out split.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Evaluation {
    /// Steps before it.
    pub step: u32,
    /// Passes over the data before it.
    pub epoch: f64,
    /// ε of those steps.
    pub epsilon: f64,
    /// Mean loss.
    pub loss: f64,
    /// Share of right answers, where the loss has classes.
    pub accuracy: Option<f64>,
}

/// Where the run is. From public figures alone: speed is counted in expected samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepReport {
    /// Steps released.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Seconds since the first.
    pub seconds: f64,
    /// Expected samples a second.
    pub samples_per_second: f64,
}

/// Who watches a run.
pub trait Progress {
    /// A backend was opened; one line on which and why.
    fn backend(&mut self, note: &str);
    /// Some steps were released. `epsilon` gives ε of the run's first steps, at least of those released: an upper bound by the run's
    /// accountant that never falls. A call takes some tens of milliseconds, and a second or two for thousands of different steps.
    fn step(&mut self, at: &StepReport, epsilon: &mut dyn FnMut(u32) -> f64);
    /// The held-out split was evaluated.
    fn evaluated(&mut self, evaluation: &Evaluation);
}

/// Why a run did not start or did not finish: one line that names the culprit and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TrainError {
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The processor computes otherwise than IEEE 754 by default.
    #[error("this thread's arithmetic: {0}; reset MXCSR (x86-64) or FPCR (AArch64), which a loaded library has set")]
    Arithmetic(#[from] damper_core::ArithmeticError),
    /// A flag at fault, and what to do.
    #[error("{0}")]
    Flag(String),
    /// The operating system gave no randomness.
    #[error("the operating system gave no random key ({0}); a private run needs one, a simulation takes --seed")]
    Key(getrandom::Error),
}

/// The core's configuration errors in the words of the command line.
impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        let flag = match error.parameter {
            "noise multiplier" | "sigma in grid units" => "--noise-multiplier",
            "clip" => "--clip",
            "learning rate" => "--lr",
            "learning-rate schedule" => "--lr-schedule",
            "expected_batch" => "--batch-size",
            "momentum" => "--momentum",
            "weight decay" => "--weight-decay",
            "beta1" | "beta2" => "--betas",
            "grid bits" => "--grid-bits",
            "Adam's epsilon" | "AdaGrad's epsilon" | "RMSprop's epsilon" | "floor of the second moment" => {
                "--adam-epsilon"
            }
            "RMSprop's alpha" => "--alpha",
            "AdaGrad-norm's b_0^2" | "AdaGrad-norm's floor" => "--adagrad-norm",
            "AdaGrad-norm's weight" => "--norm-weight",
            "start of averaging" => "--average",
            "lags of the adaptive filter" | "memory of the adaptive filter" | "floor of the adaptive filter" => {
                "--adaptive-fir"
            }
            "number of iterates" => "--iterates",
            "per-sample momentum" => "--beta",
            "kappa" => "--kappa",
            "gamma" => "--gamma",
            "variances of the gain's recursion" => "--gain-recursion",
            "exponent of the noise schedule"
            | "growth of the noise schedule"
            | "first multiplier of the noise schedule" => "--noise-schedule",
            "gamma of automatic clipping" => "--stability",
            "count noise multiplier" => "--count-noise-multiplier",
            "least clip" | "largest clip" => "--clip-bounds",
            "unclipped fraction" | "quantile" => "--percentile",
            "rate of the clip" => "--threshold-rate",
            "histogram range" | "half the histogram range" => "--range",
            "GaLore's scale" => "--galore",
            other => other,
        };
        Self::Flag(format!("{flag}: {error}"))
    }
}
