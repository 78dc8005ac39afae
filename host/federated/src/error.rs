//! The errors of a round.

use damper_accounting::AccountingError;
use damper_core::error::ConfigError;
use damper_federation::FederationError;
use damper_files::FileError;
use damper_onnx::SettingError;
use damper_train::TrainError;

/// Why a round did not happen: one line that names the file or setting and says what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
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
