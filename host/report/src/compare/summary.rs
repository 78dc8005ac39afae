//! Means and deviations over the repeats, and the best method at each budget.

use super::{ComparisonFigures, ComparisonMethod, ComparisonPlan, ComparisonRecord, Repeats, Score, TUNING_PART};
use crate::Software;
use damper_train::files;
use serde::Serialize;

/// Outcome of a comparison: `compare.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Compared metric.
    pub metric: Metric,
    /// Kind of column: `epsilon`, `noise multiplier` or `equation 6`.
    pub budget: &'static str,
    /// Budgets of the columns.
    pub budgets: Vec<f64>,
    /// Number of repeats of each run.
    pub repeats: usize,
    /// Seeds, if given. All runs are then simulations.
    pub seeds: Option<Vec<u64>>,
    /// `simulation` or `private`.
    pub run: &'static str,
    /// Settings that all methods share.
    pub shared: Vec<String>,
    /// Rows of the table.
    pub methods: Vec<Row>,
    /// Cost of tuning, if there was any.
    pub tuning: Option<Tuning>,
    /// Distribution of the number of candidates of each private search, and the figure that selects, if there was a
    /// search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<(String, Score)>,
    /// Claims of the figures, and their limits.
    pub notes: Vec<String>,
    /// The version of damper.
    pub damper: &'static str,
    /// Command line, starting with the program's name. Empty for a program that uses the library.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Software of the last run.
    pub versions: Software,
    /// Every run, tuning included.
    pub runs: Vec<ComparisonRecord>,
}

/// Compared metric, on the test split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Accuracy: higher is better.
    TestAccuracy,
    /// Loss: lower is better.
    TestLoss,
}

/// A method: a row of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name of the method.
    pub label: String,
    /// Settings of the method's own table.
    pub settings: Vec<String>,
    /// Mean training time of a run, in seconds.
    pub seconds: Option<f64>,
    /// Results at each budget.
    pub cells: Vec<Cell>,
}

/// Results of a method at a budget.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Requested budget.
    pub budget: f64,
    /// Number of runs that finished with a figure.
    pub n: usize,
    /// Mean of the metric.
    pub mean: Option<f64>,
    /// Sample standard deviation of the metric, from two runs.
    pub std: Option<f64>,
    /// Mean loss on the test split.
    pub loss_mean: Option<f64>,
    /// Sample standard deviation of the loss.
    pub loss_std: Option<f64>,
    /// Mean training time, in seconds.
    pub seconds_mean: Option<f64>,
    /// ε of the runs, the largest if they differ.
    pub epsilon: Option<f64>,
    /// σ over the clip, the smallest if they differ.
    pub noise_multiplier: Option<f64>,
    /// Rank among the methods at this budget.
    pub mark: Mark,
    /// Settings chosen by tuning.
    pub chosen: Option<Chosen>,
    /// Missing runs, with reasons.
    pub refused: Vec<RefusedRun>,
}

/// Rank of a mean at its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The best mean.
    Best,
    /// Within one standard deviation (of the best) of the best mean.
    Tied,
    /// Neither.
    None,
}

/// Settings chosen by tuning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Chosen {
    /// `key = value`, for each key that had several values.
    pub settings: Vec<String>,
    /// Number of combinations that ran.
    pub tried: usize,
    /// Combinations that did not run, with reasons.
    pub refused: Vec<Untried>,
}

/// A combination that tuning could not try.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Untried {
    /// `key = value`, for each key that had several values.
    pub settings: Vec<String>,
    /// Reason.
    pub reason: String,
}

/// A missing run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RefusedRun {
    /// Number of the repeat, from 1. 0 means all repeats, because no setting could be tuned.
    pub run: usize,
    /// Reason.
    pub reason: String,
}

/// Privacy of tuning.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tuning {
    /// Number of tuning runs.
    pub runs: usize,
    /// Share of the training split that evaluated them.
    pub held_out: f64,
    /// Always false.
    pub private: bool,
}

/// Runs of one method at one budget.
pub(super) struct Finished {
    pub(super) budget: f64,
    pub(super) chosen: Option<Chosen>,
    pub(super) figures: Vec<ComparisonFigures>,
    pub(super) refusals: Vec<RefusedRun>,
}

impl Comparison {
    pub(super) fn new(
        plan: &ComparisonPlan,
        rows: Vec<(&ComparisonMethod, Vec<Finished>)>,
        runs: Vec<ComparisonRecord>,
        tuning_runs: usize,
    ) -> Self {
        let finished = || rows.iter().flat_map(|(_, cells)| cells).flat_map(|cell| &cell.figures);
        // Losses are compared if some run has no accuracy.
        let metric = if finished().all(|figures| figures.test_accuracy.is_some()) {
            Metric::TestAccuracy
        } else {
            Metric::TestLoss
        };
        let mut methods: Vec<Row> = rows
            .into_iter()
            .map(|(method, cells)| Row {
                label: method.label.clone(),
                settings: method.own.clone(),
                seconds: mean(cells.iter().flat_map(|cell| &cell.figures).map(|figures| figures.seconds)),
                cells: cells.into_iter().map(|cell| Cell::new(cell, metric)).collect(),
            })
            .collect();
        for column in 0..plan.budgets.values.len() {
            mark(&mut methods, column, metric);
        }
        let (seeds, run) = match &plan.repeats {
            Repeats::Seeds(seeds) => (Some(seeds.clone()), "simulation"),
            Repeats::Keys(_) => (None, "private"),
        };
        let tuning = (tuning_runs > 0).then_some(Tuning { runs: tuning_runs, held_out: TUNING_PART, private: false });
        let mut comparison = Self {
            metric,
            budget: plan.budgets.name(),
            budgets: plan.budgets.values.clone(),
            repeats: plan.repeats.count(),
            seeds,
            run,
            shared: plan.shared.clone(),
            methods,
            tuning,
            search: plan.search.map(|search| (search.candidates.to_string(), search.score)),
            notes: Vec::new(),
            damper: env!("CARGO_PKG_VERSION"),
            command: Vec::new(),
            versions: Software::current(),
            runs,
        };
        comparison.notes = comparison.notes();
        comparison
    }

    /// Returns the content of `compare.json`, with a final newline.
    ///
    /// # Errors
    ///
    /// A comparison cannot cause an error: its keys are strings.
    pub fn to_json(&self) -> serde_json::Result<String> {
        files::json(self)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let runs = self.runs.len();
        notes.push(match &self.seeds {
            Some(seeds) => format!(
                "SIMULATION: the {} known, so the noise can be recomputed and nothing here is private; epsilon \
                 is what a private run with the same settings would have.",
                match seeds.as_slice() {
                    [seed] => format!("seed {seed} is"),
                    seeds => {
                        format!("seeds {} are", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
                    }
                }
            ),
            None => {
                let settings = if self.search.is_some() {
                    "or that of the whole private search where settings had several values: it covers the choice of the settings, not that of \
                     the values in the file"
                } else if self.tuning.is_some() {
                    "whose settings were chosen on the same private data: no epsilon here counts that choice"
                } else {
                    "with the settings of the file: if they were found on this data, no epsilon here counts that"
                };
                format!(
                    "Epsilon is that of one run, with a key from the operating system, {settings}. Runs on the same data add up: \
                     all {runs} of this comparison, those that tuned included, cost more than any one of them."
                )
            }
        });
        let metric = match self.metric {
            Metric::TestAccuracy => "Accuracy",
            Metric::TestLoss => "Loss",
        };
        notes.push(format!(
            "{metric} is an exact function of the test split's rows, which epsilon does not protect. The last iterate is evaluated; no step was chosen by it."
        ));
        if let Some(tuning) = &self.tuning {
            notes.push(format!(
                "Tuning was not private: {} {}, one {} for each combination, on {:.0} % of the training split and judged \
                 by the rest of it, never by the test split. They kept the noise, batch size and number of steps of the \
                 final run. What was chosen at a budget is used for all repeats there; epsilon does not count it.",
                tuning.runs,
                if tuning.runs == 1 { "run" } else { "runs" },
                if self.seeds.is_some() { "with the first seed" } else { "with a key of its own" },
                100.0 * (1.0 - tuning.held_out)
            ));
        }
        if let Some((candidates, score)) = &self.search {
            notes.push(format!(
                "Tuning was private. A search draws the number of its candidates from {candidates} and their settings at random from the values \
                 in the file, with a secret key. It is charged as a whole before the first is trained (Papernot and Steinke, arXiv 2110.03620, \
                 through Rényi divergences). The best by score is released, and nothing of the others: not even how many there were. {} How \
                 long a search takes depends on their number, and epsilon does not cover that.",
                match score {
                    Score::Private => format!(
                        "The score is the accuracy, or the loss, on {:.0} % of the training split, with noise that is charged; candidates train on \
                         the rest.",
                        100.0 * TUNING_PART
                    ),
                    Score::Public =>
                        "The score is the figure of the test split, which is taken to be public: so that figure is the best of several, and too good."
                            .into(),
                }
            ));
        }
        notes.push(if self.repeats > 1 {
            format!(
                "± is the sample standard deviation over {} runs, which share data and initial parameters: it is the \
                 spread of noise and draws, not of data.",
                self.repeats
            )
        } else {
            "One run of each: differences may be chance. Give more seeds.".into()
        });
        notes
    }
}

impl Cell {
    fn new(finished: Finished, metric: Metric) -> Self {
        let Finished { budget, chosen, figures, mut refusals } = finished;
        let of = |figures: &ComparisonFigures| match metric {
            Metric::TestAccuracy => figures.test_accuracy,
            Metric::TestLoss => figures.test_loss,
        };
        let values: Vec<f64> = figures.iter().filter_map(of).collect();
        let losses: Vec<f64> = figures.iter().filter_map(|figures| figures.test_loss).collect();
        if values.len() < figures.len() {
            let reason = "its loss on the test split is not a finite number: lower the learning rate".into();
            refusals.push(RefusedRun { run: 0, reason });
        }
        Self {
            budget,
            n: values.len(),
            mean: mean(values.iter().copied()),
            std: std(&values),
            loss_mean: mean(losses.iter().copied()),
            loss_std: std(&losses),
            seconds_mean: mean(figures.iter().map(|figures| figures.seconds)),
            epsilon: figures.iter().filter_map(|figures| figures.epsilon).reduce(f64::max),
            noise_multiplier: figures.iter().map(|figures| figures.noise_multiplier).reduce(f64::min),
            mark: Mark::None,
            chosen,
            refused: refusals,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// Returns the sample standard deviation, with divisor n − 1.
fn std(values: &[f64]) -> Option<f64> {
    let center = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - center) * (value - center)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Marks the best mean of a column and those within its standard deviation.
fn mark(methods: &mut [Row], column: usize, metric: Metric) {
    let sign = match metric {
        Metric::TestAccuracy => 1.0,
        Metric::TestLoss => -1.0,
    };
    let mut cells: Vec<&mut Cell> = methods.iter_mut().filter_map(|row| row.cells.get_mut(column)).collect();
    let best = cells
        .iter()
        .filter_map(|cell| Some((sign * cell.mean?, cell.std)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best });
    let Some((best, spread)) = best else { return };
    for cell in &mut cells {
        if let Some(mean) = cell.mean {
            let short = best - sign * mean;
            cell.mark = if short <= 0.0 {
                Mark::Best
            } else if short <= spread.unwrap_or(0.0) {
                Mark::Tied
            } else {
                Mark::None
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_the_samples() {
        assert_eq!(std(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(std(&[1.0]), None);
        assert_eq!(mean([].into_iter()), None);
    }
}
