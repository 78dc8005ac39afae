//! Record of a run: `report.json` and `metrics.csv`.

mod early_stop;
mod fields;
mod loss;
mod method;
mod metrics;
mod non_finite;
mod not_private;
mod notes;
mod of_run;
mod origin;
mod privacy;

pub use early_stop::{BEST_MODEL, EarlyStop};
pub(crate) use fields::REFUTED;
pub use fields::{
    CorrelationReport, DataReport, Execution, HeldOutNoise, HeldOutRecord, MechanismReport, NormalizeReport, Privacy,
    RecordingReport, TestFigures, TrainReport, Training, Versions,
};
pub use loss::{loss_name, reduction_name};
pub use method::{GaLoreReport, LoraReport, MethodReport, NormStepReport, OptimizerReport};
pub use non_finite::NonFiniteReport;
pub use not_private::NotPrivateReport;
pub(crate) use not_private::REASON;
pub use origin::RunOrigin;
