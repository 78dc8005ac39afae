//! `damper budget`: charges against a data set, their total cost, and the remaining budget.

use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_accounting::pld::Neighbours;
use damper_accounting::upward;
use damper_budget::{BudgetFile, BudgetHeader, Charge, cost};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Example:
  damper budget patients.budget --create patients-2026 --epsilon 8 --delta 1e-6
  damper train run.toml --budget patients.budget --samples 60000 --out run
  damper budget patients.budget
The file is a record that only grows: each run with --budget FILE appends its
whole plan before it reads data, or is refused. docs/budget.md describes it.";

/// Shows the runs charged against a data set, their total epsilon, and the rest of the limit.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct BudgetArgs {
    /// The budget of a data set
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Makes FILE, for a data set of this name
    #[arg(long, value_name = "NAME", requires = "delta", conflicts_with = "repair")]
    create: Option<String>,
    /// With --create: limit on the total cost of all runs together [default: no limit]
    #[arg(long, value_name = "E", requires = "create")]
    epsilon: Option<f64>,
    /// With --create: delta of the total, above 0 and below 1, well below 1 / number of samples
    #[arg(long, value_name = "D", requires = "create")]
    delta: Option<f64>,
    /// Records that a crash truncated the last line. Its run did not start
    #[arg(long)]
    repair: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// The total of a budget.
#[derive(Serialize)]
struct Total {
    epsilon: f64,
    delta: f64,
    dataset: String,
    limit: Option<f64>,
    /// The limit minus the total, rounded down.
    left: Option<f64>,
    /// The total for neighbours with a replaced sample. `None` if no finite bound is found.
    epsilon_of_replaced: Option<f64>,
    runs: Vec<OfRun>,
    /// Numbers of the truncated lines that were repaired.
    torn_lines: Vec<usize>,
    assumptions: Vec<&'static str>,
}

#[derive(Serialize)]
struct OfRun {
    number: u64,
    unix_seconds: u64,
    command: String,
    out: String,
    /// ε of this run alone, at the δ of the total.
    epsilon: Option<f64>,
    /// Number of charged steps.
    steps: u32,
    planned_steps: u32,
    /// `exact` or `float`, as in the run's report.
    path: String,
}

const ASSUMPTIONS: [&str; 4] = [
    "every run on the data set was charged here: runs without --budget are not known",
    "the order and the settings of runs may depend on results of earlier ones only through what those released with their charge",
    "exact figures on held-out rows are not covered, and neither are choices by them",
    "a run on the float path counts as if its arithmetic were that of real numbers",
];

pub(in crate::cli) fn run(args: &BudgetArgs) -> Result<(), Failure> {
    if let Some(dataset) = &args.create {
        let header = header(args, dataset)?;
        BudgetFile::create(&args.file, header)?;
    }
    if args.repair && !BudgetFile::repair(&args.file)? {
        return Err(Failure::in_file(&args.file, "no line is torn; leave out `repair`"));
    }
    let total = total(args)?;
    if args.json { answer_json(&total) } else { answer(&text(&total)) }
}

fn header(args: &BudgetArgs, dataset: &str) -> Result<BudgetHeader, Failure> {
    let delta = args.delta.unwrap_or_default();
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Failure::usage(format!(
            "`delta` {delta}: must be above 0 and below 1; give one well below 1 / number of samples"
        )));
    }
    if let Some(epsilon) = args.epsilon.filter(|epsilon| !(*epsilon > 0.0 && epsilon.is_finite())) {
        return Err(Failure::usage(format!("`epsilon` {epsilon}: must be a finite number above 0")));
    }
    if dataset.trim().is_empty() {
        return Err(Failure::usage("`create`: names no data set; give a name"));
    }
    Ok(BudgetHeader::new(dataset.to_owned(), args.epsilon, delta))
}

fn total(args: &BudgetArgs) -> Result<Total, Failure> {
    let budget = BudgetFile::open(&args.file)?;
    let record = budget.record().clone();
    // Accounting takes a while. Other runs need not wait.
    drop(budget);
    let epsilon = record
        .epsilon(None)
        .map_err(|error| Failure::in_file(&args.file, format!("the cost of its runs cannot be computed: {error}")))?;
    let delta = record.header.delta;
    let of_run = |charge: &Charge| OfRun {
        number: charge.number,
        unix_seconds: charge.unix_seconds,
        command: charge.command.clone(),
        out: charge.out.clone(),
        epsilon: cost(&[&charge.events], delta, Neighbours::AddOrRemove).ok(),
        steps: charge.steps,
        planned_steps: charge.plan.steps,
        path: charge.plan.path.clone(),
    };
    Ok(Total {
        epsilon,
        delta,
        limit: record.header.epsilon,
        left: record.header.epsilon.map(|limit| (limit - epsilon).max(0.0).next_down().max(0.0)),
        epsilon_of_replaced: record.epsilon_for(Neighbours::Replace, None).ok(),
        runs: record.charges.iter().map(of_run).collect(),
        torn_lines: record.torn.clone(),
        dataset: record.header.dataset,
        assumptions: ASSUMPTIONS.to_vec(),
    })
}

fn text(total: &Total) -> String {
    let mut text =
        format!("dataset   {}\nepsilon   {}\ndelta     {:e}\n", total.dataset, upward(total.epsilon), total.delta);
    match (total.limit, total.left) {
        (Some(limit), Some(left)) => {
            text += &format!("limit     {limit}\nleft      {:.4}\n", (left * 1e4).floor() / 1e4)
        }
        _ => text += "limit     none\n",
    }
    text += &format!("runs      {}", total.runs.len());
    for run in &total.runs {
        let epsilon = run.epsilon.map_or("unknown".into(), |epsilon| upward(epsilon).to_string());
        text += &format!(
            "\n{:>6}  {}  epsilon {epsilon} alone, {} of {} steps",
            run.number, run.command, run.steps, run.planned_steps
        );
        if run.path != "exact" {
            text += &format!(" ({})", run.path);
        }
        text += &format!("  {}", run.out);
    }
    for line in &total.torn_lines {
        text += &format!("\ntorn      line {line}: a crash tore it, and its run did not begin");
    }
    text
}
