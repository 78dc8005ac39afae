//! Reports of a run: `report.json`, `metrics.csv`, and a readable summary.
//!
//! # Privacy
//!
//! A report holds public constants, the digest of the released parameters, figures on the held-out samples, and the
//! training time. It has no key, no exact count about training samples, and no hash of the data. ε covers the training
//! samples in it, except that `seconds` depends on the samples drawn. It covers the held-out samples only with private
//! test metrics.

pub mod compare;
mod digest;
mod evidence;
mod folder;
pub mod page;
mod record;
mod software;
mod statement;
mod text;
mod trained;

pub use digest::{digest, hex};
pub use evidence::{AtEvaluation, Audit, Difference, Evidence, EvidenceError, Figure, ReleasedFile, recorded};
pub use folder::{OutputFolder, create_ledger_folder};
pub use page::html;
pub use record::{
    BEST_MODEL, CorrelationReport, DataReport, EarlyStop, Execution, GaLoreReport, HeldOutNoise, HeldOutRecord,
    LoraReport, MechanismReport, MethodReport, NonFiniteReport, NormStepReport, NormalizeReport, NotPrivateReport,
    OptimizerReport, Privacy, RecordingReport, RunOrigin, TestFigures, TrainReport, Training, Versions, loss_name,
    reduction_name,
};
pub use software::Software;
pub use statement::{
    AtDelta, AtSteps, Curves, Item, NotPrivateStatement, OfGroup, Statement, Unfinished, is_finished, is_not_private,
    paid, planned,
};
pub use text::SIMULATION;
pub use trained::{trained_model, unfinished_model};
