//! The arguments of `damper compare`.

use super::count::count;
use clap::Args;
use damper_accounting::CandidateCount;
use std::num::NonZeroUsize;
use std::path::PathBuf;

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

With --tune-private COUNT (or a key tune-private) that choice is private, and
each repeat of a method with several values is a search of its own: it draws the
number of its candidates from COUNT, and their settings at random from the
values, with a secret key. It is charged as a whole before the first candidate
is trained, so that epsilon of the search is the budget; its best candidate is
released, and nothing of the others. COUNT is geometric:G, logarithmic:G,
negative-binomial:SHAPE,G or poisson:MEAN: geometric:0.1 draws 10 on average.
The key tune-score says what selects: \"private\", figures with noise of a fifth
of the training split, which candidates do not train on, and which are charged;
or \"public\", the test split, if its rows are public. A search that is stopped is
run again and charged again. Its model is in ledgers/. How long a search takes
shows roughly how many candidates it had, and no epsilon covers that.

With --budget FILE (or a key budget) and samples = N, each run is charged
against the budget of a data set before it reads data, tuning runs too; a run
that would exceed the limit is refused. The figures on held-out rows are exact
and no budget covers them. Seeds make simulations, which no budget takes.

Finished runs are kept in runs.jsonl. A comparison that was stopped goes on
where it was when it is started again, with --resume or without; runs with the
same flags, model and version are not run again. A run that was stopped on its
way is run again and charged again, and what it had paid stays charged. Data
that changed is not noticed: name another folder then.

Several runs go at a time, --jobs of them, and share the processors. Each holds
its data in memory. The figures do not depend on it, but for `seconds` and the
number of workers. With --noise continuous they do depend on the workers of a
run. Without --jobs, such runs go one after another, and so do all if the file
has `workers`.

The folder then holds compare.html (table and plot), compare.md (the table,
for a record), compare.json (all figures), runs.jsonl, and in ledgers/ the plan
and the paid steps of each run, stopped ones too: they count against the data.
damper epsilon DIR/ledgers/0001 gives their epsilon.";

/// Compares methods at equal budgets.
///
/// Trains every method at every budget with every seed and gives one table, mean ± standard deviation, and a plot.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct CompareArgs {
    /// The file with the methods and settings to compare
    #[arg(value_name = "COMPARE.toml")]
    pub(super) file: PathBuf,
    /// Folder for the outputs, instead of the file's `out`. A folder of an earlier start of this comparison is
    /// continued
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Charges each run, including tuning runs, against the budget of a data set, instead of the file's `budget`. Needs
    /// `samples`
    #[arg(long, value_name = "FILE")]
    pub(super) budget: Option<PathBuf>,
    /// Continues the comparison in the folder. It is an error if the folder has none
    #[arg(long)]
    pub(super) resume: bool,
    /// Tunes in private, by searches whose number of candidates is drawn from geometric:G, logarithmic:G,
    /// negative-binomial:SHAPE,G or poisson:MEAN, instead of the file's `tune-private`
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(super) tune_private: Option<CandidateCount>,
    /// Concurrent runs [default: the number of processors, or 1 if the file has `workers`]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    /// Compares, though a launcher has started several such processes: each compares by itself, and their epsilons add
    /// up
    #[arg(long)]
    pub(super) alone: bool,
    /// Prints the comparison as one JSON object on standard output, and nothing else there
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on standard error (errors and warnings still come)
    #[arg(long)]
    pub(super) quiet: bool,
}
