//! A run that is ready for its steps.

use crate::Progress;
use crate::Run;
use crate::engine::generator::RunGenerator;
use crate::engine::observe::Observer;
use crate::engine::ranks::Ranks;
use crate::state::checkpoint::{Checkpoint, Place};
use crate::state::recording::Recording;
use crate::state::store::RanksLedger;
use damper_budget::RunPlan;
use damper_core::accounting::Ledger;
use damper_runtime::Backend;
use std::path::Path;

/// The files that a run writes during training. They are as secret as the data.
pub(in crate::engine) struct Written<'a> {
    /// The private folder, on rank 0.
    pub(in crate::engine) folder: Option<&'a Path>,
    pub(in crate::engine) plan: RunPlan,
    pub(in crate::engine) ledger: Ledger<RanksLedger<'a>>,
    /// The ledger of releases from held-out rows, on rank 0.
    pub(in crate::engine) evaluations: Ledger<RanksLedger<'a>>,
    pub(in crate::engine) recording: Option<Recording>,
    /// The state for resuming after a stop, if it is kept, and the position of the first step.
    pub(in crate::engine) checkpoint: Option<&'a mut Checkpoint>,
    pub(in crate::engine) place: Place,
}

/// A run with everything that is fixed before its first step.
pub(in crate::engine) struct Settled<'a, 'o> {
    pub(in crate::engine) run: &'a Run,
    pub(in crate::engine) ranks: Ranks<'a>,
    pub(in crate::engine) generator: &'a RunGenerator,
    pub(in crate::engine) backend: &'a dyn Backend,
    pub(in crate::engine) written: Written<'a>,
    pub(in crate::engine) progress: &'a mut dyn Progress,
    pub(in crate::engine) observer: Option<&'o mut dyn Observer>,
}
