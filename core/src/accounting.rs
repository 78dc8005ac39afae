//! What a run costs in privacy: events say what happened, the Rényi curve prices them, the ledger spends them,
//! and a filter where steps are chosen online.

pub mod event;
mod filter;
mod ledger;
mod receipt;
pub mod renyi;
mod store;

pub use event::{Event, Rate};
pub use filter::RenyiFilter;
pub use ledger::Ledger;
pub use receipt::{Due, Receipt};
pub use store::{ReadStore, Record, Store, Volatile};

pub(crate) use receipt::ChargedNoise;
