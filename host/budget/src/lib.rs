//! The privacy budget of a data set: a record of everything that was ever charged against it. Nothing here trains a network or reads data.
//!
//! The record is a file of lines that only grows. A run takes the file's lock, reads all lines, adds its whole plan to their cost,
//! and appends its line if the sum is within the limit. The line is on the disk before the run reads data. A run that crashes keeps
//! its whole charge. A run that ends early may append a second line with the steps that its ledger counts as paid. If it is resumed, a
//! third line charges the whole plan again.
//!
//! - [`RunPlan`] is what a run is charged for: its events, from which its ε follows.
//! - [`BudgetLine`] is a line, and `lines` is the form of the file: each line holds a digest of itself and of the lines before it.
//! - [`BudgetRecord`] is what the lines add up to.
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
