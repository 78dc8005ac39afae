//! Comparison of methods at equal budgets: methods × seeds × ε, as one table and plots.
//!
//! ```text
//! ComparisonPlan ─ run (a Trainer trains, the ComparisonJournal remembers) ─► Comparison ─► text, Markdown, HTML, JSON
//! ```
//!
//! A method with lists as settings is tuned first. Every combination runs once at every budget, on a held-out part of
//! the training split. The best combination is used for all seeds at that budget. The test split selects nothing. Or
//! each repeat is a private search, and its budget covers the choice.
//!
//! Several threads take runs in the order of the table. `run_order` determines the next run.

mod clock;
mod html;
mod journal;
mod plan;
mod plot;
mod run_order;
mod search;
mod summary;
mod text;

pub use clock::Position;
pub use html::html;
pub use journal::{ComparisonFigures, ComparisonJournal, ComparisonJournalError, ComparisonRecord};
pub use plan::{Budgets, ComparisonMethod, ComparisonPlan, ComparisonPurpose, Repeats, Setting, TUNING_PART, Task};
pub use search::{Found, Score, SearchPlan};
pub use summary::{Cell, Chosen, Comparison, Mark, Metric, RefusedRun, Row, Tuning, Untried};
pub use text::{markdown, text};

use run_order::{Board, Next};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A trainer. Several threads may use it at the same time.
pub trait Trainer: Sync {
    /// A guard that a run holds from its start, such as a charge.
    type Started;

    /// Starts a run. Starts do not overlap.
    ///
    /// # Errors
    ///
    /// One line with the reason why the run was rejected.
    fn start(&self, task: &Task) -> Result<Self::Started, String>;

    /// Reports a run that was rejected at its start.
    fn refused(&self, task: &Task, at: &Position, reason: &str);

    /// Trains a started run.
    ///
    /// # Errors
    ///
    /// One line with the reason why the run was rejected or failed. The other runs continue.
    fn train(&self, task: &Task, started: Self::Started, at: &Position) -> Result<ComparisonFigures, String>;
}

/// Distribution of runs over threads. The result does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jobs {
    /// Number of concurrent runs.
    pub count: NonZeroUsize,
    /// True to start runs in table order, and to reject a run only after all earlier runs have ended. A budget then
    /// rejects the same runs whatever `count` is.
    pub in_order: bool,
}

/// Runs the tasks of `plan` that are missing from `journal`, and summarises all results.
///
/// # Errors
///
/// The journal cannot be written. A failed run appears in the result, and is not an error.
pub fn run(
    plan: &ComparisonPlan,
    journal: &mut ComparisonJournal,
    trainer: &impl Trainer,
    jobs: Jobs,
) -> Result<Comparison, ComparisonJournalError> {
    let board = Board::new(plan, journal, jobs.in_order);
    let shared = Shared { board: Mutex::new(board), ended: Condvar::new() };
    thread::scope(|scope| {
        for _ in 1..jobs.count.get() {
            scope.spawn(|| shared.work(trainer));
        }
        shared.work(trainer);
    });
    shared.board.into_inner().unwrap_or_else(PoisonError::into_inner).comparison()
}

struct Shared<'a> {
    board: Mutex<Board<'a>>,
    /// Signalled when a run has ended.
    ended: Condvar,
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, Board<'a>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trains runs until none is left.
    fn work(&self, trainer: &impl Trainer) {
        let mut board = self.lock();
        loop {
            match board.next() {
                Next::End => break,
                Next::Wait => {
                    board = self.ended.wait(board).unwrap_or_else(PoisonError::into_inner);
                }
                Next::Run { at, task, position } => match trainer.start(&task) {
                    // An earlier run may return its charge.
                    Err(_) if board.in_order && board.is_running() => {
                        board = self.ended.wait(board).unwrap_or_else(PoisonError::into_inner);
                    }
                    Err(reason) => {
                        trainer.refused(&task, &position, &reason);
                        board.end(at, Err(reason));
                    }
                    Ok(started) => {
                        board.begin(at);
                        drop(board);
                        let watch = Unwinding(self);
                        let result = trainer.train(&task, started, &position);
                        mem::forget(watch);
                        board = self.lock();
                        board.end(at, result);
                        self.ended.notify_all();
                    }
                },
            }
        }
        drop(board);
        self.ended.notify_all();
    }
}

/// Lets the other threads end if this thread panics.
struct Unwinding<'a, 'b>(&'a Shared<'b>);

impl Drop for Unwinding<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().abandon();
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
