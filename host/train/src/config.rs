//! The configuration of a run.

pub(crate) mod defaults;
pub(crate) mod method;
pub(crate) mod noise_correlation;
pub(crate) mod normalize_private;
pub(crate) mod release_noise;
pub(crate) mod release_non_finite;

use crate::choice::OptimizerChoice;
use crate::config::method::Method;
use crate::config::noise_correlation::NoiseCorrelation;
use crate::config::normalize_private::NormalizePrivate;
use crate::config::release_non_finite::ReleaseNonFinite;
use damper_accounting::factor::Objective;
use damper_accounting::{Accountant, RunKind, Sampler};
use damper_budget::EXACT;
use damper_core::average::Averaging;
use damper_data::Augment;
use damper_grad::Readout;
use damper_runtime::Choice;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Path of sums that the backend clips.
pub const CLIPPED_BY_BACKEND: &str = "float, clipped by the backend";
/// Kind and path of a run without clipping and noise.
pub const NOT_PRIVATE: &str = "not private";

/// Configuration of `damper train`. All of it is public, except the samples of `data` and the seed of a private run.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// The bound on the privacy cost.
    pub budget: Budget,
    /// δ.
    pub delta: f64,
    /// The accountant.
    pub accountant: Accountant,
    /// True if a δ of `1/N` or more is allowed.
    pub allow_large_delta: bool,
    /// The declared batch size `B`. It is the divisor of sums, and sets the sampling rate with `N`.
    pub batch_size: u32,
    /// Passes over the data: `⌈epochs · N / B⌉` steps.
    pub epochs: f64,
    /// `N` for the sampling rate. The training rows are counted if not given.
    pub dataset_size: Option<u64>,
    /// The sampler of a step.
    pub sampler: Sampler,
    /// Number of groups of cyclic Poisson sampling. The number of bands if not given.
    pub groups: Option<NonZeroU32>,
    /// Correlation of the noise across steps.
    pub noise_correlation: NoiseCorrelation,
    /// The error that an optimised correlation minimises. The mean over all prefix sums if not given.
    pub noise_objective: Option<Objective>,
    /// The maximum size of a batch. Larger batches are truncated, which is charged to δ.
    pub truncate: Option<u64>,
    /// The private method.
    pub method: Method,
    /// The optimizer.
    pub optimizer: OptimizerChoice,
    /// Storage and release of sums.
    pub noise: NoiseKind,
    /// The output of the gradient graph: each sample's gradient, which the core clips, or sums that the backend clips
    /// in floats. The latter take continuous noise.
    pub readout: Readout,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// The backend.
    pub backend: Choice,
    /// The seed of a simulation. Without a seed, the key comes from the operating system.
    pub seed: Option<u64>,
    /// Rows of a physical batch. If not given, as many as fit in `memory`, up to sixteen.
    pub physical_batch: Option<NonZeroUsize>,
    /// Maximum bytes for the tensors of one worker, as counted from the graph.
    pub memory: u64,
    /// Computes the frozen part, which no trained parameter reaches, once for all samples. Keeps at most this many
    /// bytes of it in memory.
    pub cache_frozen: Option<u64>,
    /// Number of threads, each with a single-threaded session. The number of processors if not given.
    pub workers: Option<NonZeroUsize>,
    /// Random views of each sample's images. The mean of their gradients is clipped.
    pub augment: Option<Augment>,
    /// The steps over which parameters are averaged. The mean is evaluated and written. If not given, the last
    /// parameters are.
    pub average: Option<Averaging>,
    /// Evaluates on the held-out split every this many epochs, in addition to the end.
    pub evaluate_every: Option<f64>,
    /// Ends the run after this many evaluations without improvement. All planned steps stay charged.
    pub stop_early: Option<NonZeroU32>,
    /// Released metrics of the held-out rows.
    pub test_metrics: TestMetrics,
    /// Normalises features by means and deviations that are released before the first step.
    pub normalize_private: Option<NormalizePrivate>,
    /// Releases the number of training rows without a finite gradient, with noise, before the first step.
    pub release_non_finite: Option<ReleaseNonFinite>,
    /// Records the run.
    pub record: Option<RecordRequest>,
}

impl TrainConfig {
    /// Creates a configuration. All other settings have the defaults of `damper train`.
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
            groups: None,
            noise_correlation: NoiseCorrelation::None,
            noise_objective: None,
            truncate: None,
            method,
            optimizer: OptimizerChoice::default(),
            noise: NoiseKind::Discrete,
            readout: Readout::default(),
            grid_bits: 20,
            backend: Choice::Auto,
            seed: None,
            physical_batch: None,
            memory: 2 << 30,
            cache_frozen: None,
            workers: None,
            augment: None,
            average: None,
            evaluate_every: None,
            stop_early: None,
            test_metrics: TestMetrics::default(),
            normalize_private: None,
            release_non_finite: None,
            record: None,
        }
    }

    /// Returns the number of groups that steps draw from in turn. It is 1 unless sampling is cyclic.
    #[must_use]
    pub fn groups(&self) -> u32 {
        match (self.sampler, self.groups, self.noise_correlation) {
            (Sampler::CyclicPoisson, Some(groups), _) => groups.get(),
            (Sampler::CyclicPoisson, None, NoiseCorrelation::Banded(bands)) => bands,
            _ => 1,
        }
    }

    /// Returns the kind of run: private, a simulation, or not private.
    #[must_use]
    pub fn kind(&self) -> RunKind {
        match self.seed {
            _ if self.is_not_private() => RunKind::NotPrivate,
            Some(_) => RunKind::Simulation,
            None => RunKind::Private,
        }
    }

    /// Returns true if the run neither clips nor adds noise.
    #[must_use]
    pub fn is_not_private(&self) -> bool {
        self.budget == Budget::NotPrivate
    }

    /// Returns how sums and noise are computed: `exact` (integers), `float`, `float, clipped by the backend`, or `not
    /// private`.
    pub(crate) fn path(&self) -> &'static str {
        match (self.noise, self.readout) {
            _ if self.is_not_private() => NOT_PRIVATE,
            (_, Readout::ClippedSum) => CLIPPED_BY_BACKEND,
            (NoiseKind::Discrete, _) => EXACT,
            (NoiseKind::Continuous, _) => "float",
        }
    }
}

/// The bound on the privacy cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// ε is at most this value. The noise follows from it.
    Epsilon(f64),
    /// Noise of this many clips. ε follows from it.
    NoiseMultiplier(f64),
    /// Noise by ADP's equation 6 for this `ε̄`. ε follows from the accountant.
    Equation6(f64),
    /// No bound: gradients are not clipped and get no noise, and no ε holds.
    NotPrivate,
}

/// Released metrics of the held-out rows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum TestMetrics {
    /// Accuracy and loss, as exact functions of rows that ε does not protect.
    #[default]
    Exact,
    /// Accuracy and loss with noise, which is charged, so ε protects these rows too. A row's loss counts at most
    /// `loss_bound`.
    Private {
        /// The public bound on a row's loss.
        loss_bound: f32,
    },
    /// No metrics.
    None,
}

impl TestMetrics {
    /// Returns the value of the command-line flag.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Private { .. } => "private",
            Self::None => "none",
        }
    }
}

/// Storage and release of sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoiseKind {
    /// Integers on a grid and the discrete Gaussian. Exact.
    Discrete,
    /// Floats and the continuous Gaussian. Not exact.
    Continuous,
}

/// A request to record the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordRequest {
    /// The file.
    pub file: PathBuf,
    /// Expected maximum size in bytes.
    pub limit: u64,
    /// True if the run is resumed, so the recording already exists.
    pub resumed: bool,
}
