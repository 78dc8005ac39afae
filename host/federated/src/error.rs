//! Errors of a round.

use damper_accounting::AccountingError;
use damper_core::error::ConfigError;
use damper_federation::FederationError;
use damper_files::FileError;
use damper_onnx::SettingError;
use damper_train::TrainError;

/// The error of a round: one line with the file or setting and the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RoundError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Federation(#[from] FederationError),
}

impl From<ConfigError> for RoundError {
    fn from(error: ConfigError) -> Self {
        Self::Train(error.into())
    }
}

impl From<SettingError> for RoundError {
    fn from(error: SettingError) -> Self {
        Self::Federation(error.into())
    }
}

impl From<FileError> for RoundError {
    fn from(error: FileError) -> Self {
        Self::Federation(error.into())
    }
}

impl From<AccountingError> for RoundError {
    fn from(error: AccountingError) -> Self {
        Self::Federation(error.into())
    }
}
