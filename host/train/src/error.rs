//! The errors of a run.

use crate::files::FileError;
use crate::init::InitError;
use damper_accounting::AccountingError;
use damper_core::error::ConfigError;
use damper_data::DataError;
use damper_grad::Refusal;
use damper_onnx::graph::GraphError;
use damper_runtime::BackendError;

/// Why a run did not start or did not finish: one line that names the culprit and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TrainError {
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The processor computes otherwise than IEEE 754 by default.
    #[error("this thread's arithmetic: {0}; reset MXCSR (x86-64) or FPCR (AArch64), which a loaded library has set")]
    Arithmetic(#[from] damper_core::ArithmeticError),
    /// A flag at fault, and what to do.
    #[error("{0}")]
    Flag(String),
    /// The operating system gave no randomness.
    #[error("the operating system gave no random key ({0}); a private run needs one, a simulation takes --seed")]
    Key(getrandom::Error),
}

/// The core's configuration errors in the words of the command line.
impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        let flag = match error.parameter {
            "noise multiplier" | "sigma in grid units" => "--noise-multiplier",
            "clip" => "--clip",
            "learning rate" => "--lr",
            "learning-rate schedule" => "--lr-schedule",
            "expected_batch" => "--batch-size",
            "momentum" => "--momentum",
            "weight decay" => "--weight-decay",
            "beta1" | "beta2" => "--betas",
            "grid bits" => "--grid-bits",
            "Adam's epsilon" | "AdaGrad's epsilon" | "RMSprop's epsilon" | "floor of the second moment" => {
                "--adam-epsilon"
            }
            "RMSprop's alpha" => "--alpha",
            "AdaGrad-norm's b_0^2" | "AdaGrad-norm's floor" => "--adagrad-norm",
            "AdaGrad-norm's weight" => "--norm-weight",
            "start of averaging" => "--average",
            "lags of the adaptive filter" | "memory of the adaptive filter" | "floor of the adaptive filter" => {
                "--adaptive-fir"
            }
            "number of iterates" => "--iterates",
            "per-sample momentum" => "--beta",
            "kappa" => "--kappa",
            "gamma" => "--gamma",
            "variances of the gain's recursion" => "--gain-recursion",
            "exponent of the noise schedule"
            | "growth of the noise schedule"
            | "first multiplier of the noise schedule" => "--noise-schedule",
            "gamma of automatic clipping" => "--stability",
            "count noise multiplier" => "--count-noise-multiplier",
            "least clip" | "largest clip" => "--clip-bounds",
            "unclipped fraction" | "quantile" => "--percentile",
            "rate of the clip" => "--threshold-rate",
            "histogram range" | "half the histogram range" => "--range",
            "GaLore's scale" => "--galore",
            other => other,
        };
        Self::Flag(format!("{flag}: {error}"))
    }
}
