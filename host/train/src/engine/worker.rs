//! Workers: each thread adds its share of a batch to the sum of a step, with its own session and physical batch.
//!
//! Samples are split over one-thread sessions, instead of operators over threads. This was faster for all network sizes
//! measured. Each sample's gradient is added separately (`per_sample`, on a device `on_device`), or the backend clips
//! and sums a chunk (`clipped_sum`).

mod clipped_sum;
mod device_sum;
mod exact;
mod on_device;
mod ordered_lock;
mod parts;
mod per_sample;
mod plain_sum;
mod read_ahead;
mod reader;
mod views;

pub(crate) use clipped_sum::ClippedSums;
pub use exact::{ChunkRows, ExactGradients};
pub(crate) use on_device::{DeviceGradients, DeviceSession, exact};
pub use parts::OUTPUTS;
pub use per_sample::PerSampleGradients;
pub use plain_sum::PlainSums;
pub use views::Views;

use crate::choice::FilterState;
use crate::engine::generator::RunGenerator;
use crate::engine::prune::keep_outputs;
use crate::engine::watched::WatchedThreshold;
use damper_core::noise::Generator;
use damper_core::optimizer::Optimizer;
use damper_core::private::Mechanism;
use damper_core::schedule::{AnyNoise, Declared};
use damper_core::slots::{AnyClip, FilterSlot};
use damper_core::step::{NoisePart, Open, PrivateStep};
use damper_data::{Batch, Chunk, Normalize, Split};
use damper_grad::GradGraph;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TensorRef, TensorSpec};
use damper_runtime::{Backend, BackendError, KeptInputs, Session, SessionSpec};
use std::num::NonZeroUsize;

/// An open step of the trainer that takes samples, with any optimizer `O` with state `OS`, and with layers of lifetime
/// `'l`.
pub type Opened<'a, 'l, M, O, OS> = Open<'a, RunStep<'l, M, O>, FilterState, OS>;
/// The step of a run, with optimizer `O`.
pub type RunStep<'l, M, O> = PrivateStep<FilterSlot, O, M, WatchedThreshold, AnyClip<'l>, Declared<AnyNoise>>;

/// An observer of each drawn sample's combined gradient, in the order of the chunks: a recording or an audit. The bits
/// are those that the core receives. Null samples are skipped.
pub trait GradientObserver: Send {
    /// Receives the gradient of sample `sample`, `[D]`.
    fn sample(&mut self, sample: u32, mixed: &[f32]);
}

/// A strategy to compute the sum of a step from samples.
pub trait Accumulate<M: Mechanism> {
    /// Adds the samples of `chunks`. Computes gradients at the points and views of `at`, and combines them per sample
    /// before the clip. Passes each sample's gradient to `grad_observer`, if the strategy has single gradients.
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError>;

    /// Returns the number of samples in `chunks`, with chunk indices from 0, without a finite gradient at `params`.
    /// Returns 0 if the strategy does not check. Does not add to a sum.
    fn count_non_finite(
        &mut self,
        _split: &Split,
        _chunks: &[Chunk<'_>],
        _params: &[f32],
    ) -> Result<u64, BackendError> {
        Ok(0)
    }

    /// Returns the number of sessions.
    fn count(&self) -> usize;

    /// Returns the number of threads.
    fn threads(&self) -> usize {
        self.count()
    }

    /// Finishes the step. All threads draw the noise, and its bits do not depend on their number.
    ///
    /// # Errors
    ///
    /// A device failed. Nothing is released.
    fn finish<O: Optimizer<OS>, OS>(
        &mut self,
        opened: Opened<'_, '_, M, O, OS>,
        params: &mut [f32],
        generator: &RunGenerator,
    ) -> Result<(), BackendError>
    where
        M: Send + Sync,
        M::Word: Send,
    {
        let parts = (params.len() / WORTH_A_THREAD).clamp(1, self.threads());
        opened.finish_on(params, generator, parts, draw_parts).expect(LENGTH);
        Ok(())
    }
}

/// Returns the number of threads: `asked`, or the number of processors. It is 1 in WebAssembly, which has no threads.
pub fn threads(asked: Option<NonZeroUsize>) -> usize {
    if cfg!(target_family = "wasm") {
        return 1;
    }
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// Draws parts of the noise, each on a thread.
pub fn draw_parts<M: Mechanism<Word: Send> + Send + Sync>(parts: &mut [NoisePart<'_, M, impl Generator + Sync>]) {
    std::thread::scope(|scope| {
        let Some((own, others)) = parts.split_first_mut() else { return };
        for part in others {
            scope.spawn(|| part.draw());
        }
        own.draw();
    });
}

/// Number of coordinates whose noise takes several times as long as starting a thread.
const WORTH_A_THREAD: usize = 1 << 12;

/// The data that the sessions of all workers share.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// The graph that they run.
    pub grad: &'a GradGraph,
    /// The samples that they read.
    pub split: &'a Split,
    /// Rows of the physical batch.
    pub rows: NonZeroUsize,
    /// Number of workers.
    pub threads: usize,
    /// Released constants that scale the features.
    pub normalize: Option<&'a Normalize>,
}

impl Sessions<'_> {
    /// Loads a single-threaded session for the outputs with these name prefixes. Training does not compute the loss of
    /// a private sample.
    fn load(&self, prefixes: &[&str]) -> Result<Box<dyn Session>, BackendError> {
        let (model, plan) = plan(self.grad, prefixes, self.rows);
        self.backend.load(&model, &plan)
    }

    fn batch(&self) -> Result<Batch, BackendError> {
        new_batch(self.split, self.rows, self.normalize)
    }

    /// Creates one worker for each thread.
    fn each<W>(&self, make: impl Fn(&Self) -> Result<W, BackendError>) -> Result<Vec<W>, BackendError> {
        (0..self.threads).map(|_| make(self)).collect()
    }
}

/// Creates a batch of `rows` rows of `split`. Released constants scale its features, if there are any.
pub(crate) fn new_batch(
    split: &Split,
    rows: NonZeroUsize,
    normalize: Option<&Normalize>,
) -> Result<Batch, BackendError> {
    let batch = Batch::new(split, rows);
    match normalize {
        Some(constants) => batch.scaled_by(split, constants).map_err(|error| BackendError(error.to_string())),
        None => Ok(batch),
    }
}

fn fill(batch: &mut Batch, split: &Split, chunk: Chunk<'_>) -> Result<(), BackendError> {
    batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))
}

/// Returns `grad` pruned to the outputs with these name prefixes, and the session specification.
pub fn plan(grad: &GradGraph, prefixes: &[&str], rows: NonZeroUsize) -> (ModelProto, SessionSpec) {
    let is_wanted = |spec: &&TensorSpec| prefixes.iter().any(|prefix| spec.name.starts_with(prefix));
    let outputs: Vec<TensorSpec> = grad.outputs.iter().filter(is_wanted).cloned().collect();
    let names: Vec<&str> = outputs.iter().map(|spec| spec.name.as_str()).collect();
    let model = keep_outputs(&grad.model, &names);
    (model, SessionSpec { batch: rows.get(), threads: 1, inputs: grad.feeds(), outputs })
}

/// Returns true if the graph returns whole gradients of each sample instead of factors.
pub(crate) fn has_whole_gradients(grad: &GradGraph) -> bool {
    let outputs = grad.outputs.iter().filter(|spec| OUTPUTS.iter().any(|prefix| spec.name.starts_with(prefix)));
    outputs.map(|spec| spec.elements(1)).eq(grad.parameters.iter().map(|spec| spec.elements(1)))
}

/// Prefixes of the outputs that [`ClippedSums`] read.
pub const SUMS: [&str; 2] = ["dp.norm", "dp.sum."];

/// Offsets of the parameters in the flat vector, in order, and its length.
#[derive(Clone, Debug)]
pub struct ParamLayout {
    lengths: Vec<usize>,
}

impl ParamLayout {
    /// Creates the layout of the parameters of `grad`.
    pub fn new(grad: &GradGraph) -> Self {
        Self { lengths: grad.parameters.iter().map(|spec| spec.elements(1)).collect() }
    }

    /// Returns the total number of parameters.
    pub fn dim(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Returns the lengths of the parameter tensors.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns the parts of a flat vector as inputs that many runs share.
    pub fn kept<'a>(&'a self, flat: &'a [f32]) -> KeptInputs<'a> {
        KeptInputs::new(self.split(flat).map(TensorRef::F32).collect())
    }

    /// Splits a flat vector into one part per parameter tensor.
    pub fn split<'a>(&'a self, flat: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
        let mut rest = flat;
        self.lengths.iter().map(move |length| {
            let (part, after) = rest.split_at(*length);
            rest = after;
            part
        })
    }
}

/// The evaluation points and views of a step. A sample's gradient is the mean over views of the weighted sum over
/// points.
#[derive(Clone, Copy)]
pub struct GradsAt<'a> {
    /// The evaluation points.
    pub points: &'a [Point],
    /// The views of each sample. `None` if samples are used unchanged.
    pub views: Option<Views<'a>>,
}

/// An evaluation point of a step, with its weight.
#[derive(Clone, Default, Debug)]
pub struct Point {
    /// `[D]`, flat.
    pub params: Vec<f32>,
    /// The weight of its gradient in the sample's gradient.
    pub weight: f32,
}

const LENGTH: &str = "the step has the parameters' length";
pub(crate) const SHAPES: &str = "the graph's gradients have the parameters' shapes";
