//! A run of a comparison that is a private search. It is charged as a whole, and its best candidate is released.

use super::file;
use super::runner::{Runner, figures};
use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use crate::cli::session::charge::Charge;
use crate::cli::session::command_line;
use damper_budget::RunPlan;
use damper_data::{Dataset, held_out_rows};
use damper_onnx as onnx;
use damper_report::compare::{ComparisonFigures, Found, Score, SearchPlan, TUNING_PART, Task};
use damper_report::{TrainReport, create_ledger_folder, trained_model};
use damper_train::files::{Access, create_private_folder};
use damper_train::search::{Candidate, calibrated, candidates};
use damper_train::write_model;
use damper_train::{self as train, Budget, Figures, InputFiles, Outcome, Run, TestMetrics, TrainConfig, TrainError};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// Bound on the magnitude of a held-out sample's loss, if losses select.
const LOSS_BOUND: f32 = 10.0;

/// A charged search.
pub(super) struct Search {
    settings: Vec<Settings>,
    search: SearchPlan,
    plan: RunPlan,
    /// Plans of the candidates, one for each of the settings.
    plans: Vec<RunPlan>,
    charge: Charge,
}

/// Settings that a search can draw.
struct Settings {
    source: InputFiles,
    config: TrainConfig,
    split_seed: u64,
}

/// The candidate with the best score so far.
struct Best {
    score: f64,
    settings: usize,
    run: Run,
    outcome: Outcome,
    test: damper_data::Split,
}

impl Runner<'_> {
    /// Plans and charges a search.
    pub(super) fn charge_search(&self, task: &Task, search: SearchPlan) -> Result<Search, Failure> {
        let budget =
            task.flags.iter().filter(|flag| !["--tune-", "--seed="].iter().any(|start| flag.starts_with(start)));
        let budget: Vec<String> = budget.cloned().collect();
        let mut settings = Vec::new();
        let mut first: Option<Box<TrainArgs>> = None;
        for flags in &task.candidates {
            let flags = [flags.as_slice(), budget.as_slice()].concat();
            let (args, model) = file::parse(&flags, self.budget_file, self.out)?;
            let mut config = args.config()?;
            if config.test_metrics != TestMetrics::Exact {
                return Err(Failure::keys("test-metrics: `tune-score` says what selects; leave it out"));
            }
            if config.normalize_private.is_some() {
                return Err(Failure::keys(
                    "normalize-private: each candidate would release it again; use public constants (`normalize`)",
                ));
            }
            if config.release_non_finite.is_some() {
                return Err(Failure::keys("release-non-finite: each candidate would release it again; leave it out"));
            }
            if matches!(config.budget, Budget::Equation6(_)) {
                return Err(Failure::keys("equation-6: a private search needs `epsilon` or `noise-multiplier`"));
            }
            config.seed = task.seed;
            if search.score == Score::Private {
                config.test_metrics = TestMetrics::Private { loss_bound: LOSS_BOUND };
            }
            config.workers = config.workers.or(self.workers);
            settings.push(Settings { source: args.source(model), config, split_seed: args.split_seed() });
            first.get_or_insert(args);
        }
        let args = first.ok_or_else(|| Failure::keys("a search without candidates"))?;
        let samples = match args.samples() {
            Some(samples) => samples,
            None => {
                let Settings { source, config, .. } = &settings[0];
                let read = train::read(source, Some(config.backend))
                    .map_err(|error| Failure::in_model(&source.model, error))?;
                read.data.train.len() as u64
            }
        };
        let samples = match search.score {
            Score::Private => samples - held_out_rows(samples, TUNING_PART),
            Score::Public => samples,
        };
        let (plan, plans, epsilon) = planned(&settings, search, samples)?;
        if let Some(epsilon) = epsilon {
            settings.iter_mut().for_each(|one| one.config.budget = Budget::Epsilon(epsilon));
        }
        let charge = args.charge_plan("compare", &plan)?;
        let search = Search { settings, search, plan, plans, charge };
        // Detect errors of a candidate before the search is charged. No candidate is drawn for this.
        let rehearsed = (0..search.settings.len()).try_for_each(|at| search.rehearse(at));
        if let Err(failure) = rehearsed {
            search.narrow(None);
            return Err(failure);
        }
        Ok(search)
    }

    /// Runs the charged search. `paid` becomes the folder of its ledger.
    pub(super) fn search(
        &self,
        task: &Task,
        search: &Search,
        paid: &mut Option<PathBuf>,
    ) -> Result<ComparisonFigures, Failure> {
        let checkpoint = {
            let _alone = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            create_ledger_folder(self.out)?
        };
        let folder = checkpoint.parent().unwrap_or(&checkpoint).to_path_buf();
        *paid = Some(folder.clone());
        command_line::write_record(&checkpoint, &self.command)?;
        train::pay_plan(&search.plan, &checkpoint)?;
        let mut best: Option<Best> = None;
        for candidate in candidates(search.search.candidates, search.settings.len(), task.seed)? {
            let Some(found) = search.candidate(candidate, &checkpoint)? else { continue };
            // The first of equal candidates.
            if best.as_ref().is_none_or(|best| found.score > best.score) {
                best = Some(found);
            }
        }
        let Some(Best { score, settings, run, outcome, test }) = best else {
            return Err(Failure::keys(
                "the search released nothing: it drew no candidate, or the training of each diverged; it stays charged. Lower the learning \
                 rates, or search again, which is charged again",
            ));
        };
        write_model(&folder.join("model.onnx"), &trained_model(&run, &outcome.params)?, Access::Public)?;
        let Figures { loss, accuracy, .. } = train::exact_figures(&run, &outcome.params, &test)?;
        let events = &search.plan.events;
        let candidate = &search.plans[settings].events;
        let report = TrainReport::new(&run, &outcome);
        Ok(ComparisonFigures {
            test_accuracy: accuracy,
            test_loss: Some(loss).filter(|loss| loss.is_finite()),
            epsilon: Some(events.epsilon(events.accountant, events.delta)?.epsilon),
            delta: events.delta,
            search: Some(Found {
                settings: self.settings.of(&task.label, settings),
                score,
                candidate_epsilon: candidate.epsilon(candidate.accountant, candidate.delta)?.epsilon,
                folder: folder.strip_prefix(self.out).unwrap_or(&folder).display().to_string(),
            }),
            ..figures(report)?
        })
    }
}

impl Search {
    /// Prepares a run with one of the settings, and the held-out samples for the figures.
    fn prepare(&self, at: usize, seed: Option<u64>) -> Result<(Run, damper_data::Split), Failure> {
        let Settings { source, config, split_seed } = &self.settings[at];
        let config = TrainConfig { seed, ..config.clone() };
        let mut public = None;
        let run = train::prepare_on(source, config, |data| match self.search.score {
            Score::Public => {
                public.clone_from(&data.test);
                Ok(data)
            }
            Score::Private => {
                public.clone_from(&data.test);
                let Some((train, held_out)) = data.train.hold_out(TUNING_PART, *split_seed) else {
                    let problem =
                        "the training split has too few samples to hold some out; give one value for each key";
                    return Err(onnx::SettingError::new("tune_private", "", problem).into());
                };
                Ok(Dataset { train, test: Some(held_out), ..data })
            }
        });
        let run = run.map_err(|error| Failure::in_model(&source.model, error))?;
        let test = public.ok_or_else(|| Failure::keys(file::NO_TEST))?;
        if run.run_plan()?.events != self.plans[at].events {
            return Err(Failure::usage(
                "`samples`: gives another plan than the data; give the number of its training samples",
            ));
        }
        Ok((run, test))
    }

    /// Prepares and self-tests a run with one of the settings.
    fn rehearse(&self, at: usize) -> Result<(), Failure> {
        let Settings { source, config, .. } = &self.settings[at];
        let (run, _) = self.prepare(at, config.seed)?;
        train::rehearse(&run).map_err(|error| Failure::in_model(&source.model, error))
    }

    /// Trains and scores one candidate. `None` if its training diverged, which is the lowest score.
    fn candidate(&self, candidate: Candidate, checkpoint: &Path) -> Result<Option<Best>, Failure> {
        let source = &self.settings[candidate.settings].source;
        let (run, test) = self.prepare(candidate.settings, candidate.seed)?;
        // The search has the ledger. The candidate's own files are as secret as the data, and are removed.
        let scratch = checkpoint.join("candidate");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        create_private_folder(&scratch)?;
        // Progress would show the number of candidates.
        let trained = train::run(&run, &scratch, &mut ());
        fs::remove_dir_all(&scratch)?;
        let outcome = match trained {
            Err(TrainError::Diverged { .. }) => return Ok(None),
            trained => trained.map_err(|error| Failure::in_model(&source.model, error))?,
        };
        let score = outcome.evaluations.last().map(|at| at.accuracy.unwrap_or(-at.loss));
        let score = score.filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY);
        Ok(Some(Best { score, settings: candidate.settings, run, outcome, test }))
    }

    /// Keeps the whole charge if the ledger is written, and otherwise returns it.
    pub(super) fn narrow(self, paid: Option<&Path>) {
        self.charge.narrow(paid);
    }
}

/// Returns the plan of a search on `samples` samples, the plans of its candidates, and their ε if the budget is an ε.
fn planned(
    settings: &[Settings],
    SearchPlan { candidates, .. }: SearchPlan,
    samples: u64,
) -> Result<(RunPlan, Vec<RunPlan>, Option<f64>), Failure> {
    let plans = |which: &[usize], epsilon: Option<f64>| -> Result<Vec<RunPlan>, TrainError> {
        let plan = |at: &usize| {
            let Settings { source, config, .. } = &settings[*at];
            let budget = epsilon.map_or(config.budget, Budget::Epsilon);
            train::plan(source, TrainConfig { budget, ..config.clone() }, samples, None)
        };
        which.iter().map(plan).collect()
    };
    let of_search = |plans: &[RunPlan]| -> Result<RunPlan, TrainError> {
        Ok(train::search::plan(candidates, plans)?.expect("a search has candidates"))
    };
    let price = |plan: &RunPlan| -> Result<f64, TrainError> {
        Ok(plan.events.epsilon(plan.events.accountant, plan.events.delta)?.epsilon)
    };
    let all: Vec<usize> = (0..settings.len()).collect();
    let Budget::Epsilon(target) = settings[0].config.budget else {
        let plans = plans(&all, None)?;
        return Ok((of_search(&plans)?, plans, None));
    };
    // Most candidates differ only in settings without a privacy cost. Candidates with equal events at one ε also agree
    // at others, so only one of them is accounted.
    let guesses = plans(&all, Some(target / 3.0))?;
    let is_first = |at: &usize| guesses[..*at].iter().all(|other| other.events != guesses[*at].events);
    let different: Vec<usize> = all.iter().copied().filter(is_first).collect();
    for which in [&different, &all] {
        let found = calibrated(target, |epsilon| price(&of_search(&plans(which, Some(epsilon))?)?))?;
        let epsilon = found.ok_or_else(|| {
            Failure::keys(format!(
                "epsilon {target}: too small for a search of {candidates} candidates; raise it, or give a distribution of fewer"
            ))
        })?;
        let plans = plans(&all, Some(epsilon))?;
        let plan = of_search(&plans)?;
        if price(&plan)? <= target {
            return Ok((plan, plans, Some(epsilon)));
        }
    }
    Err(Failure::keys(format!("epsilon {target}: no noise is found at which the search costs that; raise it")))
}
