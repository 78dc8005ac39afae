//! Privacy accounting. Events record what happened, the Rényi curve composes them, and the ledger charges them. A
//! filter charges steps that are chosen online.

pub mod event;
mod ledger;
mod receipt;
pub mod renyi;
mod renyi_filter;
mod store;

pub use event::{Rate, SampledGaussian};
pub use ledger::{Ledger, MOST_STEPS};
pub use receipt::{Due, Receipt};
pub use renyi_filter::RenyiFilter;
pub use store::{ReadStore, Record, Store, Volatile};

pub(crate) use receipt::ChargedNoise;
