//! Progress of a comparison, and an estimate of the remaining time.

use super::ComparisonPlan;

/// Progress of a comparison at the start of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Position {
    /// Number of the run, from 1.
    pub number: usize,
    /// Total number of runs.
    pub total: usize,
    /// Remaining seconds of training, including this run. `None` before a run has finished.
    pub seconds_left: Option<f64>,
}

/// Counts runs, and the seconds of each method.
pub(super) struct Clock {
    methods: Vec<Tally>,
    total: usize,
}

#[derive(Clone, Copy)]
struct Tally {
    left: usize,
    finished: usize,
    seconds: f64,
}

impl Clock {
    pub(super) fn new(plan: &ComparisonPlan) -> Self {
        let tally = |left| Tally { left, finished: 0, seconds: 0.0 };
        Self { methods: plan.methods.iter().map(|method| tally(plan.runs_of(method))).collect(), total: plan.runs() }
    }

    /// Records a finished run of method `index`, from this or an earlier session.
    pub(super) fn found(&mut self, index: usize, seconds: f64) {
        let tally = &mut self.methods[index];
        tally.left = tally.left.saturating_sub(1);
        tally.finished += 1;
        tally.seconds += seconds;
    }

    /// Skips `runs` runs of method `index`.
    pub(super) fn skip(&mut self, index: usize, runs: usize) {
        let tally = &mut self.methods[index];
        tally.left = tally.left.saturating_sub(runs);
    }

    /// Returns the comparison's progress at the start of a run of method `index`.
    pub(super) fn position(&self, index: usize) -> Position {
        debug_assert!(self.methods[index].left > 0, "a run that begins is one of those left");
        let finished: usize = self.methods.iter().map(|tally| tally.finished).sum();
        let seconds: f64 = self.methods.iter().map(|tally| tally.seconds).sum();
        let left: usize = self.methods.iter().map(|tally| tally.left).sum();
        // A method without a finished run uses the mean of the others.
        let mean = |tally: &Tally| {
            if tally.finished > 0 { tally.seconds / tally.finished as f64 } else { seconds / finished as f64 }
        };
        let seconds_left =
            (finished > 0).then(|| self.methods.iter().map(|tally| tally.left as f64 * mean(tally)).sum::<f64>());
        Position { number: self.total.saturating_sub(left) + 1, total: self.total, seconds_left }
    }
}
