//! Privacy accounting: events record what happened, the Rényi curve composes them, the ledger charges them,
//! and a filter if steps are chosen online.

pub mod event;
mod filter;
mod ledger;
mod receipt;
pub mod renyi;
mod store;

pub use event::{Rate, SampledGaussian};
pub use filter::RenyiFilter;
pub use ledger::{Ledger, MOST_STEPS};
pub use receipt::{Due, Receipt};
pub use store::{ReadStore, Record, Store, Volatile};

pub(crate) use receipt::ChargedNoise;
