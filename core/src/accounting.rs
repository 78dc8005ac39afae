//! What a run costs in privacy: events say what happened, the Rényi curve prices them, the ledger spends them.

pub mod event;
mod ledger;
pub mod renyi;
mod store;

pub use event::{Event, Rate};
pub use ledger::Ledger;
pub use store::{Record, Store, Volatile};
