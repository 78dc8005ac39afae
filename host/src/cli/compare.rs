//! `damper compare`: methods × seeds × ε to one table and plots.

mod file;
mod watch;

use super::charge::Charge;
use super::train::TrainArgs;
use super::{Failure, answer};
use clap::Args;
use damper_data::Dataset;
use damper_report::compare::{self, Comparison, Figures, Journal, Position, Purpose, TUNING_PART, Task, Trainer};
use damper_report::{TrainReport, create_ledger_folder};
use damper_train::files::{Access, create_output_folder, write};
use damper_train::{self as train, Run, TestMetrics, tuning_rate};
use std::fs;
use std::path::{Path, PathBuf};
use watch::Watch;

const AFTER_HELP: &str = "\
Example:
  damper compare compare.toml
where compare.toml is
  out = \"digits-compare\"
  model = \"onnx-models/digits-cnn.onnx\"
  data = \"idx:onnx-models/digits\"
  delta = 1e-5
  batch-size = 128
  epochs = 20
  clip = 0.1
  epsilon = [1, 3, 8]       # the columns; or noise-multiplier = [...],
                            # or equation-6 = [...] (docs/methods/adp.md)
  seeds = [1, 2, 3]         # or seeds = 3: keys from the operating system

  [method.dp-sgd]           # a row; its name is the method, too
  lr = [1, 2]               # several values: the method is tuned
  optimizer = \"momentum\"

  [method.\"disk, adamw\"]    # another row
  method = \"disk\"
  optimizer = \"adamw\"
  lr = 0.01

Every flag of `damper train` is a key, without its dashes. At the top it is
for all methods; in a method's table it is for that method and wins. Budgets
and seeds are for all: they stand at the top alone.

A list of values for a flag that takes one value tunes the method: every
combination is tried once at each budget, on four fifths of the training split
and judged by the other fifth, never by the test split. Tuning is not private.

With --budget FILE (or a key budget) and samples = N, each run is charged
against the budget of a data set before it reads data, tuning runs too; a run
that would exceed the limit is refused. The figures on held-out rows are exact
and no budget covers them. Seeds make simulations, which no budget takes.

Finished runs are kept in runs.jsonl. A comparison that was stopped goes on
where it was when it is started again; runs with the same flags, model and
version are not run again. Data that changed is not noticed: name another
folder then. Runs go one after another, each on all processors.

The folder then holds compare.html (table and plot), compare.md (the table,
for a record), compare.json (all figures), runs.jsonl, and in ledgers/ the plan
and the paid steps of each run, stopped ones too: they count against the data.
damper epsilon DIR/ledgers/0001 gives their epsilon.";

/// Compares methods at equal budgets.
///
/// Trains every method at every budget with every seed and gives one table, mean ± standard deviation, and a plot.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CompareArgs {
    /// The file that says what to compare
    #[arg(value_name = "COMPARE.toml")]
    file: PathBuf,
    /// Folder for the outputs, instead of the file's `out`; one of an earlier start of this comparison is gone on with
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Charges each run, tuning runs too, against the budget of a data set, instead of the file's `budget`; needs `samples`
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// Prints the comparison as one JSON object on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// No progress on standard error (errors and warnings still come)
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let file::Read { plan, out, budget, json, quiet } =
        file::read(&args.file, args.out.as_deref(), args.budget.as_deref())?;
    let journal = out.join("runs.jsonl");
    let is_new = !out.exists();
    if !journal.exists() {
        create_output_folder(&out)?;
    }
    let mut journal = Journal::open(&journal)?;
    let mut runner = Runner {
        out: &out,
        budget: plan.budgets.name(),
        budget_file: budget.as_deref(),
        watch: Watch::new(args.quiet || quiet),
    };
    runner.watch.begins(plan.runs(), journal.len());
    let comparison = compare::run(&plan, &mut journal, &mut runner)?;
    let mut cells = comparison.methods.iter().flat_map(|row| &row.cells);
    if cells.clone().all(|cell| cell.n == 0) {
        let reason = cells.find_map(|cell| cell.refused.first()).map_or("", |refusal| &refusal.reason);
        let message = format!("no run finished, so there is no table; the first was refused: {reason}");
        if journal.is_empty() && !out.join("ledgers").exists() {
            // What was made for nothing.
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

/// Trains in this process.
struct Runner<'a> {
    out: &'a Path,
    /// What the budgets are.
    budget: &'static str,
    /// The budget of the data set.
    budget_file: Option<&'a Path>,
    watch: Watch,
}

impl Trainer for Runner<'_> {
    fn train(&mut self, task: &Task, at: &Position) -> Result<Figures, String> {
        self.watch.run_begins(task, at, self.budget);
        let result = self.one(task).map_err(|Failure(message)| message);
        self.watch.run_ends(&result);
        result
    }
}

impl Runner<'_> {
    fn one(&mut self, task: &Task) -> Result<Figures, Failure> {
        let (args, model) = file::parse(&task.flags, self.budget_file, self.out)?;
        if args.config()?.test_metrics != TestMetrics::Exact {
            return Err(Failure::new("test-metrics: a comparison is of exact figures of the test split; leave it out"));
        }
        let charge = args.charge("compare", (task.purpose == Purpose::Tuning).then_some(TUNING_PART))?;
        let mut paid = None;
        let result = self.charged(task, &args, &model, &charge, &mut paid);
        if result.is_err() {
            charge.narrow(paid.as_deref());
        }
        result
    }

    /// Trains, once the run is charged. `paid` is the folder of its ledger.
    fn charged(
        &mut self,
        task: &Task,
        args: &TrainArgs,
        model: &Path,
        charge: &Charge,
        paid: &mut Option<PathBuf>,
    ) -> Result<Figures, Failure> {
        let mut run = args.prepare(model, args.config()?)?;
        if run.data.test.is_none() {
            return Err(Failure::new(file::NO_TEST));
        }
        let warnings = run.warnings.iter().chain(&run.warnings_of_data).map(|warning| {
            match warning.strip_prefix("--seed makes this run") {
                Some(rest) => format!("`seeds` makes every run{rest}"),
                None => warning.clone(),
            }
        });
        self.watch.warn(warnings.collect());
        if task.purpose == Purpose::Tuning {
            for_tuning(&mut run, args.split_seed())?;
        }
        charge.check(&run)?;
        let checkpoint = create_ledger_folder(self.out)?;
        *paid = checkpoint.parent().map(Path::to_path_buf);
        let outcome = train::run(&run, &checkpoint, &mut self.watch);
        let report = TrainReport::new(&run, &outcome.map_err(|error| Failure::in_model(model, error))?);
        Ok(Figures {
            test_accuracy: report.test_accuracy,
            test_loss: report.test_loss.filter(|loss| loss.is_finite()),
            // Fewer samples drawn at a higher rate than was priced.
            epsilon: (task.purpose == Purpose::Final).then_some(report.epsilon),
            delta: report.delta,
            noise_multiplier: report.noise_multiplier,
            steps: report.steps,
            seconds: report.seconds,
            backend: report.backend.into(),
            params_digest: report.params_digest,
            parameters: report.training.parameters,
            training: serde_json::to_value(&report.training)?,
        })
    }
}

/// Holds a part of the training split out for the figures. Noise, expected batch and number of steps stay those of the
/// run that is tuned for, so the rate is higher: nothing of a tuning run is claimed to be private.
fn for_tuning(run: &mut Run, split_seed: u64) -> Result<(), Failure> {
    let too_few = || Failure::new("the training split has too few samples to tune on: give one value for each key");
    let (train, held_out) = run.data.train.hold_out(TUNING_PART, split_seed).ok_or_else(too_few)?;
    run.terms.rate = tuning_rate(&run.config, run.data.train.len() as u64, train.len() as u64)?;
    run.data = Dataset { train, test: Some(held_out), sample: run.data.sample };
    Ok(())
}
