//! Order of the runs, and their results.
//!
//! The order is by method, then by budget, with the tuning candidates before the repeats. The repeats of a cell wait
//! for its tuning. Without `in_order`, other cells may proceed meanwhile. A run in the journal is not repeated, and the
//! second of two equal runs waits for the first. So the result is that of sequential runs.

use super::clock::{Clock, Position};
use super::summary::{Chosen, Comparison, Finished, RefusedRun, Untried};
use super::{
    ComparisonFigures, ComparisonJournal, ComparisonJournalError, ComparisonMethod, ComparisonPlan, ComparisonPurpose,
    ComparisonRecord, Setting, Task,
};

/// Cell of a run in the table, and the position of the run in that cell.
pub(super) type Place = (usize, usize);

/// Next action of a thread.
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub(super) enum Next {
    /// Train this run.
    Run { at: Place, task: Task, position: Position },
    /// Wait until a run has ended.
    Wait,
    /// No runs are left.
    End,
}

#[allow(clippy::large_enum_variant, reason = "as many as runs, which are few")]
enum State {
    Waiting,
    Running,
    Done(Result<ComparisonFigures, String>),
}

struct Entry {
    task: Task,
    state: State,
}

/// A method at a budget.
struct Cell<'a> {
    /// Index of its method.
    index: usize,
    method: &'a ComparisonMethod,
    budget: f64,
    candidates: Vec<Vec<&'a Setting>>,
    /// Runs listed so far: first those of tuning, then the repeats.
    entries: Vec<Entry>,
    /// Number of tuning runs.
    tuning: usize,
    /// True if the repeats are listed.
    decided: bool,
    chosen: Option<Chosen>,
    /// Reason why no candidate ran.
    untuned: Option<String>,
}

/// All runs of a comparison.
pub(super) struct Board<'a> {
    plan: &'a ComparisonPlan,
    journal: &'a mut ComparisonJournal,
    clock: Clock,
    cells: Vec<Cell<'a>>,
    pub(super) in_order: bool,
    error: Option<ComparisonJournalError>,
    abandoned: bool,
}

impl<'a> Board<'a> {
    pub(super) fn new(plan: &'a ComparisonPlan, journal: &'a mut ComparisonJournal, in_order: bool) -> Self {
        let mut cells = Vec::new();
        for (index, method) in plan.methods.iter().enumerate() {
            for budget in &plan.budgets.values {
                let candidates = method.candidates();
                let tuning = if candidates.len() > 1 && plan.search.is_none() { candidates.len() } else { 0 };
                let task = |settings| plan.task(method, *budget, settings, 0, ComparisonPurpose::Tuning);
                let entries = candidates[..tuning]
                    .iter()
                    .map(|settings| Entry { task: task(settings), state: State::Waiting })
                    .collect();
                cells.push(Cell {
                    index,
                    method,
                    budget: *budget,
                    candidates,
                    entries,
                    tuning,
                    decided: false,
                    chosen: None,
                    untuned: None,
                });
            }
        }
        Self { plan, journal, clock: Clock::new(plan), cells, in_order, error: None, abandoned: false }
    }

    /// Stops the comparison after a panic in a thread.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    fn running(&self) -> impl Iterator<Item = &Task> {
        let entries = self.cells.iter().flat_map(|cell| &cell.entries);
        entries.filter(|entry| matches!(entry.state, State::Running)).map(|entry| &entry.task)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running().next().is_some()
    }

    /// Returns the next action. Takes results from the journal if they are there.
    pub(super) fn next(&mut self) -> Next {
        if self.error.is_some() || self.abandoned {
            return Next::End;
        }
        for cell in 0..self.cells.len() {
            self.decide(cell);
            let mut entry = 0;
            while entry < self.cells[cell].entries.len() {
                let Entry { task, state } = &self.cells[cell].entries[entry];
                if matches!(state, State::Waiting) {
                    if let Some(figures) = self.journal.find(task).cloned() {
                        self.done((cell, entry), Ok(figures));
                        self.decide(cell);
                    } else if !self.running().any(|running| running.is_same_run(task)) {
                        let mut position = self.clock.position(self.cells[cell].index);
                        position.number += self.running().count();
                        return Next::Run { at: (cell, entry), task: task.clone(), position };
                    } else if self.in_order {
                        return Next::Wait;
                    }
                }
                entry += 1;
            }
            if self.in_order && !self.cells[cell].decided {
                return Next::Wait;
            }
        }
        let is_done = |entry: &Entry| matches!(entry.state, State::Done(_));
        let all_done = self.cells.iter().all(|cell| cell.decided && cell.entries.iter().all(is_done));
        if all_done { Next::End } else { Next::Wait }
    }

    /// Lists the repeats of a cell after its tuning has ended.
    fn decide(&mut self, at: usize) {
        let cell = &mut self.cells[at];
        if cell.decided {
            return;
        }
        let (mut tried, mut refused) = (Vec::new(), Vec::new());
        for (at, entry) in cell.entries.iter().enumerate() {
            match &entry.state {
                State::Done(Ok(figures)) => tried.push((at, figures.score())),
                State::Done(Err(reason)) => {
                    let settings = cell.method.chosen(&cell.candidates[at]);
                    refused.push(Untried { settings, reason: reason.clone() });
                }
                State::Waiting | State::Running => return,
            }
        }
        cell.decided = true;
        // The first of equal candidates.
        let best = tried.iter().copied().reduce(|best, other| if other.1 > best.1 { other } else { best });
        let settings = match best {
            Some((at, _)) => {
                let settings = cell.method.chosen(&cell.candidates[at]);
                cell.chosen = Some(Chosen { settings, tried: tried.len(), refused });
                &cell.candidates[at]
            }
            None if cell.tuning == 0 => &cell.candidates[0],
            None => {
                cell.untuned = refused.into_iter().next().map(|first| first.reason);
                self.clock.skip(cell.index, self.plan.repeats.count());
                return;
            }
        };
        for repeat in 0..self.plan.repeats.count() {
            let task = match &self.plan.search {
                Some(search) if cell.candidates.len() > 1 => {
                    self.plan.search_task(cell.method, cell.budget, &cell.candidates, repeat, search)
                }
                _ => self.plan.task(cell.method, cell.budget, settings, repeat, ComparisonPurpose::Final),
            };
            cell.entries.push(Entry { task, state: State::Waiting });
        }
    }

    /// Marks a run as started.
    pub(super) fn begin(&mut self, (cell, entry): Place) {
        self.cells[cell].entries[entry].state = State::Running;
    }

    /// Ends a run. It is in the journal when this returns.
    pub(super) fn end(&mut self, at: Place, result: Result<ComparisonFigures, String>) {
        if let Ok(figures) = &result {
            let task = self.cells[at.0].entries[at.1].task.clone();
            if let Err(error) = self.journal.record(&ComparisonRecord { task, figures: figures.clone() }) {
                self.error.get_or_insert(error);
            }
        }
        self.done(at, result);
    }

    fn done(&mut self, (cell, entry): Place, result: Result<ComparisonFigures, String>) {
        let cell = &mut self.cells[cell];
        match &result {
            Ok(figures) => self.clock.found(cell.index, figures.seconds),
            Err(_) => self.clock.skip(cell.index, 1),
        }
        cell.entries[entry].state = State::Done(result);
    }

    /// Returns the summary of all runs.
    pub(super) fn comparison(self) -> Result<Comparison, ComparisonJournalError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let (mut runs, mut tuning_runs) = (Vec::new(), 0);
        let mut rows: Vec<(&ComparisonMethod, Vec<Finished>)> = Vec::new();
        for cell in self.cells {
            let mut finished =
                Finished { budget: cell.budget, chosen: cell.chosen, figures: Vec::new(), refusals: Vec::new() };
            finished.refusals.extend(cell.untuned.map(|reason| RefusedRun { run: 0, reason }));
            for (at, Entry { task, state }) in cell.entries.into_iter().enumerate() {
                let is_tuning = at < cell.tuning;
                match state {
                    State::Done(Ok(figures)) => {
                        runs.push(ComparisonRecord { task, figures: figures.clone() });
                        if is_tuning {
                            tuning_runs += 1;
                        } else {
                            finished.figures.push(figures);
                        }
                    }
                    State::Done(Err(reason)) if !is_tuning => {
                        finished.refusals.push(RefusedRun { run: at - cell.tuning + 1, reason });
                    }
                    State::Done(Err(_)) | State::Waiting | State::Running => {}
                }
            }
            match rows.last_mut().filter(|(method, _)| std::ptr::eq(*method, cell.method)) {
                Some((_, cells)) => cells.push(finished),
                None => rows.push((cell.method, vec![finished])),
            }
        }
        Ok(Comparison::new(self.plan, rows, runs, tuning_runs))
    }
}
