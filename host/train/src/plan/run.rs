//! A prepared run, with everything that is fixed before the first step.

use crate::TrainError;
use crate::config::TrainConfig;
use crate::engine::worker;
use crate::plan::model::Model;
use crate::plan::terms::Price;
use crate::plan::warnings::Warnings;
use crate::state::data_digest::data_digest;
use damper_accounting::RunKind;
use damper_core::accounting::Rate;
use damper_data::{Dataset, Normalize};
use damper_grad::FrozenPart;
use std::sync::Arc;

/// A prepared run. Its copies share the model and the data.
#[derive(Clone)]
pub struct Run {
    /// The configuration.
    pub config: TrainConfig,
    /// The model.
    pub model: Arc<Model>,
    /// The data.
    pub data: Arc<Dataset>,
    /// The choice of the held-out rows.
    pub held_out: HeldOutChoice,
    /// Rate, steps, noise and privacy cost.
    pub price: Price,
    /// Warnings, for the user who starts the run and for the owner of the data.
    pub warnings: Warnings,
    /// The parts that no trained parameter reaches and that are computed once, each from the values of the part
    /// before it. The graphs of `model` read the values of the last. The data are still those of the whole network.
    pub(crate) frozen: Vec<Arc<FrozenPart>>,
    /// Released constants that scale the features when a batch is filled.
    pub(crate) normalize: Option<Normalize>,
    /// The digest of all data as read, if memory has other data: a shard of the training rows, or values of the frozen
    /// part.
    pub(crate) data_digest: Option<String>,
}

/// The choice of the held-out rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldOutChoice {
    /// True if held-out rows come from the training file.
    pub of_training_file: bool,
    /// True if held-out rows are chosen by class, which makes the class of every row public.
    pub are_stratified: bool,
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

    /// Keeps only the training rows of shard `rank` of `size`, and the held-out rows on rank 0, for
    /// [`run_on`](crate::run_on). Rows in a file are read into memory, up to `memory` bytes of each array. To avoid
    /// having all rows in memory first, read the data with
    /// [`DataOptions::of_shard`](damper_data::DataOptions::of_shard). A copy of the run keeps all rows in memory.
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
        let data = Arc::make_mut(&mut self.data);
        if rank > 0 {
            data.test = None;
        }
        data.train.keep_rows(rank * rows / size..(rank + 1) * rows / size);
        data.train.load_rows(memory)?;
        if let Some(test) = &mut data.test {
            test.load_rows(memory)?;
        }
        Ok(())
    }

    /// Returns true if memory has only a shard of the training rows.
    pub(crate) fn is_sharded(&self) -> bool {
        self.data.train.held().is_some()
    }

    /// Returns true if the frozen part has operators without a rule, so that it runs on one sample at a time.
    pub fn has_opaque_part(&self) -> bool {
        self.frozen.iter().any(|part| part.is_opaque)
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        worker::threads(self.config.workers)
    }

    /// Returns the sampling rate of an accounted event. It is 1 for samplers without a Bernoulli trial per sample.
    pub fn priced_rate(&self) -> Rate {
        self.price.terms.event_rate
    }
}
