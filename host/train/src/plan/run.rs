//! A model made ready to be trained, with everything fixed that must be fixed before the first step.

use crate::TrainError;
use crate::config::TrainConfig;
use crate::engine::worker;
use crate::plan::held_out::PrivateMetrics;
use crate::plan::terms::Terms;
use crate::state::data_digest::data_digest;
use damper_accounting::{Plan, RunKind};
use damper_core::accounting::Rate;
use damper_data::Dataset;
use damper_edit::lora::Adapted;
use damper_grad::{DeriveOptions, GradGraph};
use damper_onnx::graph::Graph;
use damper_onnx::pb::ModelProto;
use std::num::NonZeroUsize;

/// A model made ready to be trained, with everything fixed that must be fixed before data is read.
#[derive(Clone)]
pub struct Run {
    /// The configuration.
    pub config: TrainConfig,
    /// The model as it was read, without adapters.
    pub model: ModelProto,
    /// The model with adapters, if the run trains some. `graph` and `grad` are of it.
    pub adapted: Option<Adapted>,
    /// The public seed of its weights, where the file leaves them out.
    pub init_seed: Option<u64>,
    /// The graph that computes per-sample gradients.
    pub grad: GradGraph,
    /// The graph that computes clipped sums, where the backend clips.
    pub clipped: Option<GradGraph>,
    /// The model as a graph, without the initial values of the trained parameters, which are `params`.
    pub graph: Graph,
    /// The loss; the output that feeds it is named.
    pub derive: DeriveOptions,
    /// The data.
    pub data: Dataset,
    /// Initial values of the trained parameters, flat, in `grad.parameters` order.
    pub params: Vec<f32>,
    /// Rows of the one physical batch shape.
    pub physical_batch: NonZeroUsize,
    /// The terms that determine its privacy cost.
    pub terms: Terms,
    /// Every draw with its noise: what is priced is what runs. None if the run is not private.
    pub plan: Option<Plan>,
    /// The δ at which the plan is priced: what truncation leaves of the one claimed.
    pub plan_delta: f64,
    /// True if the held-out rows are rows of the training file.
    pub held_out_of_training_file: bool,
    /// The held-out samples are chosen by class, so that the class of every row is public.
    pub stratified: bool,
    /// The noise of private metrics, where they are asked for and there are held-out rows.
    pub private_metrics: Option<PrivateMetrics>,
    /// The price of all steps; of private metrics, where that is larger. Infinite if the run is not private.
    pub epsilon: f64,
    /// The Rényi order that gave it; none where privacy loss distributions did.
    pub order: Option<f64>,
    /// The digest of all data, if only a shard of the training rows is in memory.
    pub(crate) data_digest: Option<String>,
    /// One line each for whoever starts the run, and for the report: functions of public figures alone.
    pub warnings: Vec<String>,
    /// One line each for whoever holds the data: what depends on its rows, and goes into no released file.
    pub warnings_of_data: Vec<String>,
}

impl Run {
    /// The arithmetic of sums and noise: `exact` (integers), `float`, or `float, clipped by the backend`.
    pub fn path(&self) -> &'static str {
        self.config.path()
    }

    /// The kind of run: private, a simulation, or not private.
    pub fn kind(&self) -> RunKind {
        self.config.kind()
    }

    /// Keeps the training rows of shard `rank` of `size` alone, and the held-out rows on rank 0, for [`run_on`](crate::run_on). Rows in a
    /// file are then taken into memory, up to `memory` bytes of each array. Read them with
    /// [`DataOptions::of_shard`](damper_data::DataOptions::of_shard): else all are in memory before.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read, or there are more shards than rows.
    pub fn keep_shard(&mut self, rank: usize, size: usize, memory: u64) -> Result<(), TrainError> {
        let rows = self.data.train.len();
        if size > rows {
            return Err(TrainError::Run(format!("{rows} training rows make no {size} shards; use fewer ranks")));
        }
        self.data_digest = Some(data_digest(&self.data)?);
        if rank > 0 {
            self.data.test = None;
        }
        self.data.train.keep_rows(rank * rows / size..(rank + 1) * rows / size);
        self.data.train.load_rows(memory)?;
        if let Some(test) = &mut self.data.test {
            test.load_rows(memory)?;
        }
        Ok(())
    }

    /// Returns true if only a shard of the training rows is in memory.
    pub(crate) fn is_sharded(&self) -> bool {
        self.data_digest.is_some()
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        worker::threads(self.config.workers)
    }

    /// The rate that is priced: 1 where a sample has no coin.
    pub fn priced_rate(&self) -> Rate {
        self.terms.event_rate
    }
}
