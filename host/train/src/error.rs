//! The errors of a run.

use crate::engine::ranks::group::RankError;
use crate::state::checkpoint::CheckpointError;
use crate::state::files::FileError;
use damper_accounting::AccountingError;
use damper_core::error::{ConfigError, OpenError};
use damper_data::DataError;
use damper_edit::init::InitError;
use damper_grad::DeriveError;
use damper_onnx::SettingError;
use damper_onnx::graph::GraphError;
use damper_runtime::BackendError;

/// The reason why a run did not start or finish: one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum TrainError {
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    DeriveError(#[from] DeriveError),
    /// The thread's floating-point mode is not the IEEE 754 default.
    #[error("this thread's arithmetic: {0}; reset MXCSR (x86-64) or FPCR (AArch64), which a loaded library has set")]
    Arithmetic(#[from] damper_core::ArithmeticError),
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A wrong setting, with its fix.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Parameters or losses left the range that can be trained.
    #[error(
        "step {step}: {what} infinite, not a number or beyond {limit:e}, so the run stops; lower `lr`, or check the model's weights"
    )]
    Diverged { step: u32, what: &'static str, limit: f32 },
    /// The run was stopped before the first step. Only the release of `normalize_private` was charged.
    #[error("the run was stopped before its first step")]
    Stopped,
    /// Anything else.
    #[error("{0}")]
    Run(String),
    /// The operating system returned no randomness.
    #[error("the operating system gave no random key ({0}); a private run needs one, a simulation takes `seed`")]
    Key(getrandom::Error),
}

/// Converts the error of a step or a release that did not open.
impl From<OpenError<Self>> for TrainError {
    fn from(error: OpenError<Self>) -> Self {
        match error {
            OpenError::Store(error) => error,
            // Steps and releases stay within the budgets, which the state was made for.
            OpenError::BudgetSpent | OpenError::Call(_) => Self::Run(format!("the step did not open: {error}")),
        }
    }
}

/// Maps the core's configuration errors to the trainer's settings.
impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        let setting = match error.parameter {
            "noise multiplier" | "sigma in grid units" => "noise_multiplier",
            "learning rate" => "lr",
            "learning-rate schedule" => "decay",
            "expected_batch" => "batch_size",
            "grid bits" => "grid_bits",
            "AdaGrad-norm's b_0^2" | "AdaGrad-norm's floor" => "norm_step",
            "AdaGrad-norm's weight" => "norm_weight",
            "start of averaging" | "decay of averaging" | "power of averaging" => "average",
            "first multiplier of the noise schedule"
            | "exponent of the noise schedule"
            | "growth of the noise schedule" => "noise_schedule",
            "GaLore's scale" => "galore",
            "weight decay" => "weight_decay",
            "beta1" | "beta2" => "betas",
            "Adam's epsilon" | "AdaGrad's epsilon" | "RMSprop's epsilon" | "floor of the second moment" => {
                "adam_epsilon"
            }
            "RMSprop's alpha" => "alpha",
            "unclipped fraction" | "quantile" => "percentile",
            "count noise multiplier" => "count_noise_multiplier",
            "histogram range" | "half the histogram range" => "histogram_range",
            "least clip" | "largest clip" => "clip_bounds",
            "rate of the clip" => "clip_lr",
            "number of iterates" => "iterates",
            "per-sample momentum" => "beta",
            "variances of the gain's recursion" => "gain_recursion",
            "lags of the adaptive filter" | "memory of the adaptive filter" | "floor of the adaptive filter" => {
                "adaptive_fir"
            }
            "gamma of automatic clipping" => "auto_clip_gamma",
            other => other,
        };
        SettingError::new(setting, "", error.to_string()).into()
    }
}
