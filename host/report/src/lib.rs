//! Reports of a run: `report.json`, `metrics.csv`, and a few lines for people.
//!
//! # Privacy
//!
//! A report holds public constants, the released parameters' digest, figures on the held-out samples, and the time it took. No key, no
//! exact count of what happened to training samples, no hash of data. ε covers the training samples in it, except that `seconds`
//! depends on the samples drawn. It covers the held-out samples with private test metrics alone.

mod audit;
mod by_class;
pub mod compare;
mod curves;
mod difference;
mod digest;
mod early_stop;
mod evidence;
mod folder;
mod guideline;
mod html;
mod loss;
mod method;
mod metrics;
mod non_finite;
mod not_private;
mod not_private_html;
mod notes;
mod of_run;
pub mod page;
mod plot;
mod software;
mod statement;
mod text;
mod train_report;
mod trained;
mod unfinished;

pub use audit::{Audit, Figure};
pub use curves::{AtDelta, AtSteps, Curves};
pub use difference::Difference;
pub use digest::{digest, hex};
pub use early_stop::{BEST_MODEL, EarlyStop};
pub use evidence::{Evidence, EvidenceError, Released, recorded};
pub use folder::{OutputFolder, create_ledger_folder};
pub use guideline::Item;
pub use html::html;
pub use loss::{loss_name, reduction_name};
pub use method::{GaLoreReport, LoraReport, MethodReport, NormStepReport, OptimizerReport};
pub use non_finite::NonFiniteReport;
pub use not_private::{NotPrivate, NotPrivateReport, is_not_private};
pub use software::Software;
pub use statement::{OfGroup, Statement};
pub use text::SIMULATION;
pub use train_report::{
    CorrelationReport, DataReport, HeldOut, HeldOutNoise, MechanismReport, NormalizeReport, Privacy, RecordingReport,
    TrainReport, Training, Versions,
};
pub use trained::{trained_model, unfinished_model};
pub use unfinished::{Unfinished, is_finished, paid, planned};
