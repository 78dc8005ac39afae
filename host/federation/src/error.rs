//! Errors of a federation.

use damper_accounting::AccountingError;
use damper_core::error::ConfigError;
use damper_files::FileError;
use damper_onnx::SettingError;
use std::io;
use std::path::PathBuf;

/// An error of a plan, a ledger or a request: one line with the file or setting and the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum FederationError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    #[error(transparent)]
    Config(ConfigError),
    /// A plan that cannot be read.
    #[error("not a federation's plan, or damaged ({0}); make it again, or ask for it again")]
    Plan(String),
    /// A member's key, or a list of members, that cannot be read.
    #[error("{0}")]
    Key(String),
    #[error("{}: {error}; make it readable and writable", file.display())]
    Io { file: PathBuf, error: io::Error },
    #[error("{}: in use by another process; wait for it", .0.display())]
    Running(PathBuf),
    #[error("{}: its ledger cannot be used ({problem}); the rounds it charged are unknown, so nothing more is released from it", folder.display())]
    Ledger { folder: PathBuf, problem: String },
    /// The owner of the device must approve the plan first.
    #[error("{}: its owner has not approved this plan: {reason}; read what it means and approve it: damper federation approve PLAN `ledger` {}", folder.display(), folder.display())]
    NotApproved { folder: PathBuf, reason: &'static str },
    /// The plan costs more than the owner of the device allows.
    #[error("the plan costs epsilon {}, and this device's `max_epsilon` is {most}; plan fewer rounds or more noise", damper_accounting::upward(*epsilon))]
    AboveCap { epsilon: f64, most: f64 },
    /// The plan states ε at a larger δ than the owner of the device allows.
    #[error(
        "the plan's epsilon is at delta {delta:e}, and this device's `max_delta` is {most:e}; plan with a smaller delta"
    )]
    LargeDelta { delta: f64, most: f64 },
    /// The request is not one of the plan. The message is the same for any fault.
    #[error(
        "not a request of the plan; give `params`, the {parameters} finite float32 words of the round's trained parameters, or none in round 0"
    )]
    Request { parameters: u32 },
    /// The round was released, or skipped for a later round.
    #[error(
        "`round` {round}: charged or passed already, the next one is {next}; what was kept of a round is sent again for the same request alone"
    )]
    Charged { round: u32, next: u32 },
    #[error("`round` {round}: the budget is spent, the plan has {rounds} rounds; nothing more is released")]
    Spent { round: u32, rounds: u32 },
    /// The bytes are not a sum of a round.
    #[error("{0}")]
    Sum(String),
    #[error(
        "{accepted} updates can be added, and the plan's noise is for {smallest} devices or more; nothing is charged and nothing is released"
    )]
    SmallCohort { accepted: u32, smallest: u32 },
    /// The cohort of the round was already fixed.
    #[error(
        "`round` {round}: its cohort is fixed, and the update of device {device} in it is missing or another; give the files of the first time"
    )]
    Cohort { round: u32, device: u64 },
}

impl FederationError {
    /// Returns true if a setting is wrong.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        match self {
            Self::Accounting(error) => error.is_of_setting(),
            Self::Setting(_) | Self::Charged { .. } | Self::Spent { .. } | Self::Cohort { .. } => true,
            _ => false,
        }
    }
}

impl From<ConfigError> for FederationError {
    fn from(error: ConfigError) -> Self {
        let setting = match error.parameter {
            "noise multiplier" | "sigma in grid units" => "noise_multiplier",
            "grid bits" => "grid_bits",
            _ => return Self::Config(error),
        };
        SettingError::new(setting, "", format!("must be {}", error.must_be)).into()
    }
}
