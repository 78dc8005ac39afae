//! Comparing methods at equal budgets: methods × seeds × ε to one table and plots.
//!
//! ```text
//! Plan ─ run (a Trainer trains, the Journal remembers) ─► Comparison ─► text, Markdown, HTML, JSON
//! ```
//!
//! A method whose settings are lists is tuned first: every combination is tried once at every budget, on a held-out part
//! of the training split, and the best is used for all seeds at that budget. Nothing is chosen by the test split.

mod clock;
mod html;
mod journal;
mod plan;
mod plot;
mod summary;
mod text;

pub use clock::Position;
pub use html::html;
pub use journal::{Figures, Journal, JournalError, Record};
pub use plan::{Budgets, Method, Plan, Purpose, Repeats, Setting, TUNING_PART, Task};
pub use summary::{Cell, Chosen, Comparison, DeriveError, Mark, Metric, Row, Tuning, Untried};
pub use text::{markdown, text};

use clock::Clock;
use summary::Finished;

/// Who trains.
pub trait Trainer {
    /// Trains one run.
    ///
    /// # Errors
    ///
    /// One line that says why the run was refused or failed. The others go on.
    fn train(&mut self, task: &Task, at: &Position) -> Result<Figures, String>;
}

/// Runs what `plan` holds and `journal` does not, and sums it up.
///
/// # Errors
///
/// The journal cannot be written. A run that fails is a refusal in the result, and no error.
pub fn run(plan: &Plan, journal: &mut Journal, trainer: &mut dyn Trainer) -> Result<Comparison, JournalError> {
    let mut session = Session { clock: Clock::new(plan), journal, trainer, runs: Vec::new(), tuning_runs: 0 };
    let mut rows = Vec::new();
    for (index, method) in plan.methods.iter().enumerate() {
        let mut cells = Vec::new();
        for budget in &plan.budgets.values {
            cells.push(session.cell(plan, index, method, *budget)?);
        }
        rows.push((method, cells));
    }
    Ok(Comparison::new(plan, rows, session.runs, session.tuning_runs))
}

struct Session<'a> {
    clock: Clock,
    journal: &'a mut Journal,
    trainer: &'a mut dyn Trainer,
    /// Everything that ran, in order.
    runs: Vec<Record>,
    tuning_runs: usize,
}

impl Session<'_> {
    fn cell(&mut self, plan: &Plan, index: usize, method: &Method, budget: f64) -> Result<Finished, JournalError> {
        let mut finished = Finished { budget, chosen: None, figures: Vec::new(), refusals: Vec::new() };
        let mut candidates = method.candidates();
        let settings = if candidates.len() == 1 {
            candidates.remove(0)
        } else {
            match self.tune(plan, index, budget, &candidates)? {
                Ok(best) => {
                    let settings = candidates.swap_remove(best.0);
                    finished.chosen = Some(best.1);
                    settings
                }
                Err(reason) => {
                    self.clock.skip(index, plan.repeats.count());
                    finished.refusals.push(DeriveError { run: 0, reason });
                    return Ok(finished);
                }
            }
        };
        for repeat in 0..plan.repeats.count() {
            let task = plan.task(method, budget, &settings, repeat, Purpose::Final);
            match self.one(index, task)? {
                Ok(figures) => finished.figures.push(figures),
                Err(reason) => finished.refusals.push(DeriveError { run: repeat + 1, reason }),
            }
        }
        Ok(finished)
    }

    /// The best of `candidates`, or why none of them ran.
    fn tune(
        &mut self,
        plan: &Plan,
        index: usize,
        budget: f64,
        candidates: &[Vec<&Setting>],
    ) -> Result<Result<(usize, Chosen), String>, JournalError> {
        let method = &plan.methods[index];
        let mut tried = Vec::new();
        let mut refused = Vec::new();
        for (at, settings) in candidates.iter().enumerate() {
            let task = plan.task(method, budget, settings, 0, Purpose::Tuning);
            match self.one(index, task)? {
                Ok(figures) => {
                    self.tuning_runs += 1;
                    tried.push((at, figures.score()));
                }
                Err(reason) => {
                    refused.push(Untried { settings: method.chosen(settings), reason });
                }
            }
        }
        // The first of equals.
        let best = tried.iter().copied().reduce(|best, other| if other.1 > best.1 { other } else { best });
        Ok(match best {
            Some((at, _)) => Ok((at, Chosen { settings: method.chosen(&candidates[at]), tried: tried.len(), refused })),
            None => {
                Err(refused.into_iter().next().map_or_else(|| "nothing to choose from".into(), |first| first.reason))
            }
        })
    }

    /// One run: the journal's, else the trainer's.
    fn one(&mut self, index: usize, task: Task) -> Result<Result<Figures, String>, JournalError> {
        if let Some(figures) = self.journal.find(&task).cloned() {
            self.clock.found(index, figures.seconds);
            self.runs.push(Record { task, figures: figures.clone() });
            return Ok(Ok(figures));
        }
        let position = self.clock.position(index);
        let result = self.trainer.train(&task, &position);
        match &result {
            Ok(figures) => {
                self.clock.found(index, figures.seconds);
                let record = Record { task, figures: figures.clone() };
                self.journal.record(&record)?;
                self.runs.push(record);
            }
            Err(_) => self.clock.skip(index, 1),
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
