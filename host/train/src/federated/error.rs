//! The errors of a federation.

use crate::TrainError;
use crate::files::FileError;
use damper_accounting::AccountingError;
use damper_core::error::ConfigError;
use damper_onnx::SettingError;
use std::io;
use std::path::PathBuf;

/// Why a round did not happen: one line that names the file or setting and says what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum FederationError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A plan that cannot be read.
    #[error("not a federation's plan, or damaged ({0}); make it again, or ask for it again")]
    Plan(String),
    #[error("{}: {error}; make it readable and writable", file.display())]
    Io { file: PathBuf, error: io::Error },
    #[error("{}: in use by another process; wait for it", .0.display())]
    Running(PathBuf),
    #[error("{}: its ledger cannot be used ({problem}); the rounds it charged are unknown, so nothing more is released from it", folder.display())]
    Ledger { folder: PathBuf, problem: String },
    /// A request that is not one of the plan. The words are the same whatever is wrong.
    #[error(
        "not a request of the plan; give `params`, the {parameters} finite float32 words of the round's trained parameters, or none in round 0"
    )]
    Request { parameters: u32 },
    /// A round that was released, or given up for a later one.
    #[error(
        "`round` {round}: charged already, {charged} rounds are; send what was kept of it, or take part in the next round"
    )]
    Charged { round: u32, charged: u32 },
    #[error(
        "`round` {round}: the budget is spent, all {rounds} rounds of the plan are charged; nothing more is released"
    )]
    Spent { round: u32, rounds: u32 },
    /// Bytes that are no sum of a round.
    #[error("{0}")]
    Sum(String),
    #[error(
        "{accepted} updates can be added, and the plan's noise is for {smallest} devices or more; the round is charged and nothing is released"
    )]
    SmallCohort { accepted: u32, smallest: u32 },
}

impl From<ConfigError> for FederationError {
    fn from(error: ConfigError) -> Self {
        Self::Train(error.into())
    }
}
