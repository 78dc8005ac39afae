//! Items that most programs use: `use damper_core::prelude::*`.

pub use crate::accounting::{Due, Ledger, Rate, ReadStore, Receipt, Record, Store, Volatile};
pub use crate::error::{CallError, ConfigError, OpenError};
pub use crate::noise::{Key, NoiseRng};
pub use crate::step::dp_sgd::{DpSgd, DpSgdConfig, DpSgdState, DpSgdStep};
pub use crate::step::{Open, PrivateStep, Slots, StepState};
