//! The privacy budget of a data set: a record of everything that was ever charged to it. This crate does not train
//! networks or read data.
//!
//! The record is an append-only file of lines. A run locks the file, reads all lines, and adds its whole plan to their
//! cost. If the sum is within the limit, it appends its line. The line is on disk before the run reads data. A run that
//! crashes keeps its whole charge. A run that ends early may append a second line with the charged steps of its ledger.
//! If it is resumed, a third line charges the whole plan again.
//!
//! - [`RunPlan`] is the charge of a run: its events, which determine its ε.
//! - [`BudgetLine`] is a line, and `lines` has the file format. Each line has a digest of itself and of the lines
//!   before it.
//! - [`BudgetRecord`] is the sum of the lines.
//! - `cost` composes all events of all runs.

mod budget;
mod cost;
mod lines;
mod plan;
mod record;

pub use budget::{BudgetError, BudgetFile, Reservation};
pub use cost::cost;
pub use lines::{BudgetHeader, BudgetLine};
pub use plan::{EXACT, PLAN, RunPlan, evaluations, evaluations_until};
pub use record::{BudgetRecord, Charge};
