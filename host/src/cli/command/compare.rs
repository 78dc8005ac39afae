//! `damper compare`: methods × seeds × ε, as one table and plots.

mod args;
mod count;
mod file;
mod runner;
mod search;
mod watch;

pub(in crate::cli) use args::CompareArgs;

use crate::cli::args::train::TrainArgs;
use crate::cli::session::charge::Charge;
use crate::cli::session::command_line;
use crate::cli::session::command_line::line;
use crate::cli::session::ranks::refuse_several;
use crate::cli::{Failure, answer};
use damper_report::compare::{
    self, Comparison, ComparisonFigures, ComparisonJournal, ComparisonPlan, ComparisonPurpose, Jobs, Position,
    TUNING_PART, Task, Trainer,
};
use damper_report::{TrainReport, create_ledger_folder};
use damper_train::files::{Access, create_output_folder, may_hold_ledger, write};
use damper_train::{self as train, Run, TestMetrics};
use runner::{Runner, SettingsOf, figures};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use watch::{RunWatch, Watch};

pub(in crate::cli) fn run(args: &CompareArgs) -> Result<(), Failure> {
    refuse_several(args.alone)?;
    let file::Read { plan, out, budget, json, quiet } =
        file::read(&args.file, args.out.as_deref(), args.budget.as_deref(), args.tune_private)?;
    let journal = out.join("runs.jsonl");
    let is_new = !out.exists();
    if args.resume && !journal.exists() {
        return Err(Failure::in_file(&out, "holds no comparison to resume (no runs.jsonl); leave out `resume`"));
    }
    if !journal.exists() {
        create_output_folder(&out)?;
    }
    let mut journal = ComparisonJournal::open(&journal)?;
    let processors = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let (count, workers) = share(&plan, args.jobs, processors);
    let runner = Runner {
        command: line::command(),
        out: &out,
        budget: plan.budgets.name(),
        budget_file: budget.as_deref(),
        watch: Watch::new(args.quiet || quiet, args.json || json, count),
        workers,
        search: plan.search,
        settings: SettingsOf(&plan),
        folders: Mutex::new(()),
    };
    runner.watch.begins(plan.runs(), journal.len(), unfinished(&out, journal.len()));
    let jobs = Jobs { count, in_order: budget.is_some() };
    let comparison = compare::run(&plan, &mut journal, &runner, jobs)?;
    let comparison = Comparison { command: line::command(), ..comparison };
    let mut cells = comparison.methods.iter().flat_map(|row| &row.cells);
    if cells.clone().all(|cell| cell.n == 0) {
        let reason = cells.find_map(|cell| cell.refused.first()).map_or("", |refusal| &refusal.reason);
        let message = format!("no run finished, so there is no table; the first was refused: {reason}");
        if journal.is_empty() && !out.join("ledgers").exists() {
            // Remove unused files.
            drop(journal);
            let _ = fs::remove_file(out.join("runs.jsonl"));
            if is_new {
                let _ = fs::remove_dir(&out);
            }
        }
        return Err(Failure::in_file(&args.file, message));
    }
    let json_text = comparison.to_json()?;
    let save = |name: &str, text: &str| write(&out.join(name), text.as_bytes(), Access::Public);
    save("compare.json", &json_text)?;
    save("compare.md", &compare::markdown(&comparison))?;
    save("compare.html", &compare::html(&comparison))?;

    if args.json || json { answer(json_text.trim_end()) } else { answer(&summary(&comparison, &out)) }
}

fn summary(comparison: &Comparison, out: &Path) -> String {
    let out = out.display();
    format!(
        "{}\n\npage      {out}/compare.html\ntable     {out}/compare.md\nfigures   {out}/compare.json\nruns      \
         {out}/runs.jsonl",
        compare::text(comparison)
    )
}

/// Returns the number of concurrent runs, and the number of workers of a run without that setting. A run with figures
/// that depend on its workers gets the workers of a single run.
fn share(
    plan: &ComparisonPlan,
    jobs: Option<NonZeroUsize>,
    processors: NonZeroUsize,
) -> (NonZeroUsize, Option<NonZeroUsize>) {
    let settings = plan.methods.iter().flat_map(|method| method.settings.iter().flatten());
    let flags: Vec<&str> = settings.flat_map(|setting| setting.flags.iter().map(String::as_str)).collect();
    let has_workers = flags.iter().any(|flag| flag.starts_with("--workers="));
    let is_continuous = flags.contains(&"--noise=continuous");
    // A user who limits the workers also limits the memory: a second concurrent run would hold the data again.
    let fit = if has_workers || is_continuous { 1 } else { processors.get() };
    let count = jobs.map_or(fit, NonZeroUsize::get).min(plan.runs());
    let at_least_one = |number: usize| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
    let count = at_least_one(count);
    (count, (!is_continuous).then(|| at_least_one(processors.get() / count)))
}

/// Returns the number of runs in `ledgers` that charged steps and are not in the journal of `finished` runs.
fn unfinished(out: &Path, finished: usize) -> usize {
    let folders = fs::read_dir(out.join("ledgers")).into_iter().flatten().flatten();
    folders.filter(|folder| may_hold_ledger(&folder.path())).count().saturating_sub(finished)
}

/// A charged run.
enum Started {
    Run(Box<StartedRun>),
    Search(Box<search::Search>),
}

/// A run with fixed settings.
struct StartedRun {
    args: Box<TrainArgs>,
    model: PathBuf,
    charge: Charge,
}

impl Trainer for Runner<'_> {
    type Started = Started;

    fn start(&self, task: &Task) -> Result<Started, String> {
        let started = match self.search {
            Some(search) if !task.candidates.is_empty() => {
                self.charge_search(task, search).map(|search| Started::Search(Box::new(search)))
            }
            _ => self.charge(task).map(|run| Started::Run(Box::new(run))),
        };
        started.map_err(|failure| failure.message)
    }

    fn refused(&self, task: &Task, at: &Position, reason: &str) {
        self.watch.run(task, at, self.budget).ends(&Err(reason.to_owned()));
    }

    fn train(&self, task: &Task, started: Started, at: &Position) -> Result<ComparisonFigures, String> {
        let mut watch = self.watch.run(task, at, self.budget);
        let mut paid = None;
        let result = match started {
            Started::Run(run) => {
                let result = self.charged(task, &run, &mut paid, &mut watch);
                if result.is_err() {
                    run.charge.narrow(paid.as_deref());
                }
                result
            }
            Started::Search(search) => {
                let result = self.search(task, &search, &mut paid);
                if result.is_err() {
                    search.narrow(paid.as_deref());
                }
                result
            }
        };
        let result = result.map_err(|failure| failure.message);
        watch.ends(&result);
        result
    }
}

impl Runner<'_> {
    fn charge(&self, task: &Task) -> Result<StartedRun, Failure> {
        let (args, model) = file::parse(&task.flags, self.budget_file, self.out)?;
        let config = args.config()?;
        if config.test_metrics != TestMetrics::Exact {
            return Err(Failure::keys(
                "test-metrics: a comparison is of exact figures of the test split; leave it out",
            ));
        }
        if config.normalize_private.is_some() {
            return Err(Failure::keys(
                "normalize-private: each run would release it again; use public constants (`normalize`)",
            ));
        }
        if config.release_non_finite.is_some() {
            return Err(Failure::keys("release-non-finite: each run would release it again; leave it out"));
        }
        let charge = args.charge("compare", (task.purpose == ComparisonPurpose::Tuning).then_some(TUNING_PART))?;
        Ok(StartedRun { args, model, charge })
    }

    /// Trains the charged run. `paid` becomes the folder of its ledger.
    fn charged(
        &self,
        task: &Task,
        StartedRun { args, model, charge }: &StartedRun,
        paid: &mut Option<PathBuf>,
        watch: &mut RunWatch<'_>,
    ) -> Result<ComparisonFigures, Failure> {
        let mut config = args.config()?;
        config.workers = config.workers.or(self.workers);
        let mut run = args.prepare(model, config)?;
        if run.data.test.is_none() {
            return Err(Failure::keys(file::NO_TEST));
        }
        let warnings = run.warnings.public.iter().map(|warning| match warning.strip_prefix("--seed makes this run") {
            Some(rest) => format!("`seeds` makes every run{rest}"),
            None => warning.clone(),
        });
        self.watch.warn(warnings);
        run.warnings.of_data.iter().for_each(|warning| self.watch.of_rows(warning));
        if task.purpose == ComparisonPurpose::Tuning {
            for_tuning(&mut run, args.split_seed())?;
        }
        charge.check(&run)?;
        let checkpoint = {
            let _alone = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            create_ledger_folder(self.out)?
        };
        *paid = checkpoint.parent().map(Path::to_path_buf);
        command_line::write_record(&checkpoint, &self.command)?;
        let outcome = train::run(&run, &checkpoint, watch);
        if outcome.is_err() {
            leave_unpaid(paid);
        }
        let report = TrainReport::new(&run, &outcome.map_err(|error| Failure::in_model(model, error))?);
        let figures = figures(report)?;
        // A tuning run draws fewer samples, at a higher rate than the accounted rate.
        Ok(ComparisonFigures {
            epsilon: figures.epsilon.filter(|_| task.purpose == ComparisonPurpose::Final),
            ..figures
        })
    }
}

/// Removes the folder of a run that failed before its first charge. A folder with a ledger stays.
fn leave_unpaid(paid: &mut Option<PathBuf>) {
    if let Some(folder) = paid.take_if(|folder| !may_hold_ledger(folder)) {
        let _ = fs::remove_dir_all(&folder);
        // This succeeds only if no other run has left a folder in it.
        let _ = folder.parent().map(fs::remove_dir);
    }
}

/// Holds out a part of the training split for the figures. Noise, expected batch and number of steps stay those of the
/// final run, so the sampling rate is higher. A tuning run is not claimed to be private.
fn for_tuning(run: &mut Run, split_seed: u64) -> Result<(), Failure> {
    let too_few = || Failure::keys("the training split has too few samples to tune on: give one value for each key");
    let (train, held_out) = run.data.train.hold_out(TUNING_PART, split_seed).ok_or_else(too_few)?;
    train::set_tuning_rate(run, train.len() as u64)?;
    let data = Arc::make_mut(&mut run.data);
    (data.train, data.test) = (train, Some(held_out));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_report::compare::{Budgets, ComparisonMethod, Repeats, Setting};

    fn shared(flags: &[&str], jobs: Option<usize>) -> (usize, Option<usize>) {
        let setting = |flag: &&str| vec![Setting { text: String::new(), flags: vec![(*flag).into()] }];
        let method = ComparisonMethod {
            label: "a".into(),
            settings: flags.iter().map(setting).collect(),
            own: vec![],
            model: String::new(),
        };
        let budgets = Budgets { flag: "epsilon", values: vec![1.0, 2.0] };
        let plan =
            ComparisonPlan { budgets, repeats: Repeats::Keys(3), methods: vec![method], shared: vec![], search: None };
        let (count, workers) = share(&plan, jobs.and_then(NonZeroUsize::new), NonZeroUsize::new(16).unwrap());
        (count.get(), workers.map(NonZeroUsize::get))
    }

    #[test]
    fn runs_and_workers_share_the_processors() {
        assert_eq!(shared(&["--lr=1"], None), (6, Some(2)));
        assert_eq!(shared(&["--lr=1"], Some(4)), (4, Some(4)));
        assert_eq!(shared(&["--lr=1"], Some(100)), (6, Some(2)));
        assert_eq!(shared(&["--workers=1"], None).0, 1);
        assert_eq!(shared(&["--workers=5"], Some(3)).0, 3);
        assert_eq!(shared(&["--noise=continuous"], None), (1, None));
        assert_eq!(shared(&["--noise=continuous"], Some(3)), (3, None));
        assert_eq!(shared(&["--noise=continuous", "--workers=8"], None), (1, None));
    }
}
