//! The configuration of a run.

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

/// The path of clipped sums by the backend.
pub const CLIPPED_BY_BACKEND: &str = "float, clipped by the backend";
/// The kind and the path of a run without clipping and noise.
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
    /// True if a δ of `1/N` and more is allowed.
    pub allow_large_delta: bool,
    /// The declared size of a batch, `B`: the divisor, and with `N` the sampling rate.
    pub batch_size: u32,
    /// Passes over the data: `⌈epochs · N / B⌉` steps.
    pub epochs: f64,
    /// `N` for the sampling rate where it is to be declared rather than counted.
    pub dataset_size: Option<u64>,
    /// The sampler of a step.
    pub sampler: Sampler,
    /// Groups of cyclic Poisson draws; as many as bands if not given.
    pub groups: Option<NonZeroU32>,
    /// The correlation of the noise of successive steps.
    pub noise_correlation: NoiseCorrelation,
    /// The error that an optimised correlation makes small; the mean over all prefix sums if not given.
    pub noise_objective: Option<Objective>,
    /// Draws of more samples are cut to so many, which is charged out of δ.
    pub truncate: Option<u64>,
    /// The private method.
    pub method: Method,
    /// The optimizer.
    pub optimizer: OptimizerChoice,
    /// Storage and release of sums.
    pub noise: NoiseKind,
    /// What is read out of the gradient graph: each sample's gradient, which the core clips, or sums that the backend clipped in
    /// its floats, which takes continuous noise.
    pub readout: Readout,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// The backend.
    pub backend: Choice,
    /// A seed makes the run a simulation; without one, the key comes from the operating system.
    pub seed: Option<u64>,
    /// Rows of the one physical batch shape; as many as `memory` holds, up to sixteen, if not given.
    pub physical_batch: Option<NonZeroUsize>,
    /// Bytes that the tensors of one worker may take, as counted from the graph.
    pub memory: u64,
    /// Computes the part of the network that no trained parameter reaches once for all samples, and keeps up to so many bytes of it in memory.
    pub cache_frozen: Option<u64>,
    /// Threads, each with a one-thread session; as many as there are processors if not given.
    pub workers: Option<NonZeroUsize>,
    /// Random views of each sample's pictures, of whose gradients the mean is clipped.
    pub augment: Option<Augment>,
    /// The parameters that are evaluated and written: their mean after these steps, or those after the last.
    pub average: Option<Averaging>,
    /// Evaluates on the held-out split every so many epochs, beside the end.
    pub evaluate_every: Option<f64>,
    /// Ends the run after so many evaluations without a better one. What it costs stays that of all steps.
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
    /// With everything else as `damper train` has it by default.
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

    /// Groups that steps draw from in turn: 1 unless draws are cyclic.
    #[must_use]
    pub fn groups(&self) -> u32 {
        match (self.sampler, self.groups, self.noise_correlation) {
            (Sampler::CyclicPoisson, Some(groups), _) => groups.get(),
            (Sampler::CyclicPoisson, None, NoiseCorrelation::Banded(bands)) => bands,
            _ => 1,
        }
    }

    /// The kind of run: private, a simulation, or not private.
    #[must_use]
    pub fn kind(&self) -> RunKind {
        match self.seed {
            _ if self.is_not_private() => RunKind::NotPrivate,
            Some(_) => RunKind::Simulation,
            None => RunKind::Private,
        }
    }

    /// Returns true if nothing is clipped and nothing has noise.
    #[must_use]
    pub fn is_not_private(&self) -> bool {
        self.budget == Budget::NotPrivate
    }

    /// Whether sums and noise are integers, or else how they are floats: `exact`, `float`, or `float, clipped by the backend`. Without
    /// privacy `not private`.
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
    /// ε at most this; the noise follows.
    Epsilon(f64),
    /// Noise of this many clips; ε follows.
    NoiseMultiplier(f64),
    /// Noise by ADP's equation 6 for its `ε̄`; ε follows from the accountant.
    Equation6(f64),
    /// None: gradients are not clipped and have no noise, and no ε holds.
    NotPrivate,
}

/// Released metrics of the held-out rows.
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

impl TestMetrics {
    /// As the command line takes it.
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
    /// Integers on a grid and the discrete Gaussian: exact.
    Discrete,
    /// Floats and the continuous Gaussian: not exact.
    Continuous,
}

/// A recording that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordRequest {
    /// The file.
    pub file: PathBuf,
    /// Bytes that it is expected to have at most.
    pub limit: u64,
    /// True if the run goes on, and so has begun it already.
    pub resumed: bool,
}
