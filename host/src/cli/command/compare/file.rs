//! `compare.toml`: the comparison, in the flags of `damper train`.
//!
//! Every run is a command line of `damper train`, and its parser reads it. So a comparison accepts and rejects the same
//! settings, with the same messages. The whole file is checked before the first run.

use super::count::count;
use crate::cli::args::given;
use crate::cli::args::given::{Fault, KeyFault, KeyFaultKind, Runs};
use crate::cli::args::train::TrainArgs;
use crate::cli::commands::Cli;
use crate::cli::{Failure, plain};
use clap::{Arg, ArgAction, CommandFactory};
use damper_accounting::CandidateCount;
use damper_report::compare::{Budgets, ComparisonMethod, ComparisonPlan, Repeats, Score, SearchPlan, Setting};
use damper_report::hex;
use damper_train as train;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Keys that are allowed only at the top.
const TOP: [&str; 11] = [
    "out",
    "budget",
    "json",
    "quiet",
    "seeds",
    "seed",
    "epsilon",
    "noise-multiplier",
    "equation-6",
    "tune-private",
    "tune-score",
];
const BUDGETS: [&str; 3] = ["epsilon", "noise-multiplier", "equation-6"];

/// Error for data without held-out samples.
pub(super) const NO_TEST: &str = "the data has no held-out samples to compare on: give some with `test`";

/// Content of the file.
pub(super) struct Read {
    pub(super) plan: ComparisonPlan,
    pub(super) out: PathBuf,
    /// Budget of the data set.
    pub(super) budget: Option<PathBuf>,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// Reads and checks `file`. The command line gives the folder `out`, the `budget` of the data set, and the `candidates`
/// of a private search.
pub(super) fn read(
    file: &Path,
    out: Option<&Path>,
    budget: Option<&Path>,
    candidates: Option<CandidateCount>,
) -> Result<Read, Failure> {
    let table = given::read(file)?;
    let mut reader = Reader {
        file,
        out: out.map_or_else(|| PathBuf::from("out"), Path::to_path_buf),
        budget: None,
        train: command(),
    };
    reader.budget = match (budget, table.get("budget")) {
        (Some(budget), _) => Some(budget.to_path_buf()),
        (None, Some(Value::String(budget))) if !budget.is_empty() => Some(PathBuf::from(budget)),
        (None, Some(other)) => return Err(reader.at("budget", other, "give a file that damper budget made")),
        (None, None) => None,
    };
    if reader.budget.is_some() && matches!(table.get("seeds"), Some(Value::Array(_))) {
        return Err(reader.failure(
            "`seeds` makes every run a simulation, which no budget takes: give the number of runs, such as seeds = 3, or leave out \
             `budget`",
        ));
    }
    let out = match (out, table.get("out")) {
        (Some(out), _) => out.to_path_buf(),
        (None, Some(Value::String(out))) if !out.is_empty() => PathBuf::from(out),
        (None, Some(other)) => return Err(reader.at("out", other, "give a folder's name")),
        (None, None) => return Err(reader.failure("no folder for the outputs: add out = \"DIR\", or give --out DIR")),
    };
    let switch = |key: &str| match table.get(key) {
        None => Ok(false),
        Some(Value::Boolean(on)) => Ok(*on),
        Some(other) => Err(reader.at(key, other, "give true or false")),
    };
    let (json, quiet) = (switch("json")?, switch("quiet")?);
    let budgets = reader.budgets(&table)?;
    let repeats = reader.repeats(&table)?;
    let mut shared = Table::new();
    for (key, value) in &table {
        if key != "method" && !TOP.contains(&key.as_str()) {
            shared.insert(key.clone(), value.clone());
        }
    }
    for (key, value) in &shared {
        reader.settings("", key, value)?;
    }
    let Some(Value::Table(tables)) = table.get("method").filter(|value| value.as_table().is_none_or(|t| !t.is_empty()))
    else {
        return Err(reader.failure(
            "no method to compare: add a table for each row, such as [method.dp-sgd] with its flags under it",
        ));
    };
    let mut digests = BTreeMap::new();
    let mut methods = Vec::new();
    for (label, own) in tables {
        let Value::Table(own) = own else {
            return Err(reader.at(&format!("method.{label}"), own, &format!("make it a table: {}", heading(label))));
        };
        methods.push(reader.method(label, own, &shared, &mut digests)?);
    }
    let shared = shared.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let search = reader.search(&table, candidates)?;
    if search.is_some()
        && methods.iter().all(|method: &ComparisonMethod| method.settings.iter().all(|values| values.len() == 1))
    {
        return Err(reader.failure(
            "`tune-private`: no method has several values to choose from; give a list, such as lr = [1, 2], or leave it out",
        ));
    }
    let plan = ComparisonPlan { budgets, repeats, methods, shared, search };
    reader.try_all(&plan)?;
    Ok(Read { plan, out, budget: reader.budget, json, quiet })
}

/// Parses the command line of a run as that of `damper train`, and returns it with its model.
pub(super) fn parse(flags: &[String], budget: Option<&Path>, out: &Path) -> Result<(Box<TrainArgs>, PathBuf), Failure> {
    let model = flags.iter().find_map(|flag| flag.strip_prefix("--model-file="));
    let model = PathBuf::from(model.ok_or_else(|| Failure::new("names no model, such as model = \"FILE.onnx\""))?);
    let mut line = vec![format!("--out={}", out.display())];
    line.extend(budget.map(|budget| format!("--budget={}", budget.display())));
    line.extend(flags.iter().cloned());
    let mut train = command();
    let mut args = given::of_args(&line, &train)?;
    match given::complete(&mut args, Runs::Several, &mut train) {
        Ok(_) => Ok((Box::new(args), model)),
        Err(Fault::Failure(failure)) => Err(failure),
        Err(Fault::Usage(error)) => Err(Failure::new(plain(&error))),
    }
}

fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand("train").expect("there is a subcommand train").clone()
}

/// Returns the first line of a method's table.
fn heading(label: &str) -> String {
    let bare = !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { format!("[method.{label}]") } else { format!("[method.{label:?}]") }
}

/// Returns true if a flag's value is a list, as `--betas B1,B2`, or if the flag may be repeated.
fn takes_list(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    matches!(arg.get_action(), ArgAction::Append) || names.iter().any(|name| name.contains(','))
}

struct Reader<'a> {
    file: &'a Path,
    out: PathBuf,
    budget: Option<PathBuf>,
    train: clap::Command,
}

impl Reader<'_> {
    fn failure(&self, message: impl std::fmt::Display) -> Failure {
        Failure::in_run_file(self.file, message)
    }

    fn at(&self, key: &str, value: &Value, remedy: &str) -> Failure {
        self.failure(format!("`{key} = {value}`: {remedy}"))
    }

    fn budgets(&self, table: &Table) -> Result<Budgets, Failure> {
        let given: Vec<_> = BUDGETS.iter().filter_map(|flag| Some((*flag, table.get(*flag)?))).collect();
        let (flag, value) = match given[..] {
            [one] => one,
            [] => return Err(self.failure("no budgets: add a line such as epsilon = [1, 3, 8]")),
            [(one, _), (other, _), ..] => {
                return Err(self.failure(format!("`{one}` and `{other}`: each sets the noise; keep one")));
            }
        };
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let mut values = Vec::new();
        for item in items {
            let number = match item {
                Value::Integer(number) => *number as f64,
                Value::Float(number) => *number,
                _ => f64::NAN,
            };
            if !(number.is_finite() && number > 0.0) {
                return Err(self.at(flag, value, "give numbers above 0, such as [1, 3, 8]"));
            }
            if values.contains(&number) {
                return Err(self.at(flag, value, &format!("{item} stands there twice; remove one")));
            }
            values.push(number);
        }
        if values.is_empty() {
            return Err(self.at(flag, value, "the list is empty; give at least one number"));
        }
        Ok(Budgets { flag, values })
    }

    /// Returns the private search for settings, if the file asks for one.
    fn search(&self, table: &Table, candidates: Option<CandidateCount>) -> Result<Option<SearchPlan>, Failure> {
        let of_file = match table.get("tune-private") {
            None => None,
            Some(value @ Value::String(text)) => {
                Some(count(text).map_err(|reason| self.at("tune-private", value, &reason))?)
            }
            Some(other) => return Err(self.at("tune-private", other, "give a text, such as \"geometric:0.1\"")),
        };
        let score = match table.get("tune-score") {
            None => Score::default(),
            Some(Value::String(text)) if text == "private" => Score::Private,
            Some(Value::String(text)) if text == "public" => Score::Public,
            Some(other) => return Err(self.at("tune-score", other, "give \"private\" or \"public\"")),
        };
        match candidates.or(of_file) {
            Some(candidates) => Ok(Some(SearchPlan { candidates, score })),
            None if table.contains_key("tune-score") => Err(self.failure(
                "`tune-score`: is for a private search; add tune-private = \"geometric:0.1\", or leave it out",
            )),
            None => Ok(None),
        }
    }

    fn repeats(&self, table: &Table) -> Result<Repeats, Failure> {
        if let Some(value) = table.get("seed") {
            return Err(self.at("seed", value, "a comparison takes a list: seeds = [1, 2, 3]"));
        }
        let remedy = "give a list of whole numbers, such as [1, 2, 3], or how many runs with keys of their own";
        match table.get("seeds") {
            None => Ok(Repeats::Keys(1)),
            Some(Value::Integer(count)) if (1..=1_000_000).contains(count) => Ok(Repeats::Keys(*count as usize)),
            Some(value @ Value::Array(items)) => {
                let mut seeds = Vec::new();
                for item in items {
                    let seed = item.as_integer().and_then(|seed| u64::try_from(seed).ok());
                    let seed = seed.ok_or_else(|| self.at("seeds", value, remedy))?;
                    if seeds.contains(&seed) {
                        return Err(self.at("seeds", value, &format!("{seed} stands there twice; remove one")));
                    }
                    seeds.push(seed);
                }
                if seeds.is_empty() {
                    return Err(self.at("seeds", value, "the list is empty; give at least one seed"));
                }
                Ok(Repeats::Seeds(seeds))
            }
            Some(other) => Err(self.at("seeds", other, remedy)),
        }
    }

    fn method(
        &self,
        label: &str,
        own: &Table,
        shared: &Table,
        digests: &mut BTreeMap<String, String>,
    ) -> Result<ComparisonMethod, Failure> {
        let mut merged = shared.clone();
        for (key, value) in own {
            if TOP.contains(&key.as_str()) {
                return Err(self.failure(format!(
                    "{}: `{key}` is for all methods alike: give it at the top, and leave it out here",
                    heading(label)
                )));
            }
            merged.insert(key.clone(), value.clone());
        }
        if !merged.contains_key("method") {
            // The label, which must then be the name of a method.
            let value = Value::String(label.into());
            self.settings(label, "method", &value).map_err(|_| {
                self.failure(format!(
                    "{}: `{label}` is no method: name one in its table, such as method = \"dp-sgd\" ({})",
                    heading(label),
                    "damper train --help-all lists them"
                ))
            })?;
            merged.insert("method".into(), value);
        }
        let mut settings = Vec::new();
        for (key, value) in &merged {
            let place = if own.contains_key(key) { label } else { "" };
            settings.push(self.settings(place, key, value)?);
        }
        let model = match merged.get("model") {
            Some(Value::String(model)) => digests
                .entry(model.clone())
                .or_insert_with(|| fs::read(model).map(|bytes| hex(&Sha256::digest(&bytes))).unwrap_or_default())
                .clone(),
            _ => String::new(),
        };
        let own = own.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        Ok(ComparisonMethod { label: label.into(), settings, own, model })
    }

    /// Returns the candidate values of `key = value`: one, or the items of a list if the flag takes a single value.
    /// `label` is the method of the table, or empty at the top.
    fn settings(&self, label: &str, key: &str, value: &Value) -> Result<Vec<Setting>, Failure> {
        let place = if label.is_empty() { String::new() } else { format!("{}: ", heading(label)) };
        let Some(name) = given::argument(&self.train, key) else {
            return Err(self.failure(format!("{place}{}", given::unknown(&self.train, key))));
        };
        let fault = |reason: &str| self.failure(format!("{place}`{key} = {value}`: {reason}"));
        let parsed = |value: &Value| {
            let one = Table::from_iter([(name.clone(), value.clone())]);
            if let Err(KeyFault { kind: KeyFaultKind::Value(_, problem), .. }) = given::of_table(&one, &self.train) {
                return Err(fault(&problem));
            }
            let flags = match value {
                Value::String(model) if name == "model" => vec![format!("--model-file={model}")],
                _ => given::words(&one, &self.train),
            };
            Ok(Setting { text: format!("{key} = {value}"), flags })
        };
        match value {
            Value::Array(items) if items.is_empty() => Err(fault("the list is empty; give a value, or leave it out")),
            // A flag that takes a list is tuned by a list of lists.
            Value::Array(items)
                if !given::find(&self.train, &name).is_some_and(takes_list) || items.iter().any(Value::is_array) =>
            {
                items.iter().map(parsed).collect()
            }
            _ => Ok(vec![parsed(value)?]),
        }
    }

    /// Parses every method's command lines, with each candidate value once, and reads every model with its data once.
    /// Errors here concern the file. Errors that depend on the budget appear in the table.
    fn try_all(&self, plan: &ComparisonPlan) -> Result<(), Failure> {
        let mut read = BTreeSet::new();
        for method in &plan.methods {
            let in_method = |message: String| {
                self.failure(format!("{}: {message}; add or change it there or at the top", heading(&method.label)))
            };
            for settings in method.each_value() {
                let flags: Vec<String> = settings
                    .iter()
                    .flat_map(|setting| setting.flags.iter().cloned())
                    .chain(plan.budgets.values.first().map(|budget| plan.budgets.flag(*budget)))
                    .collect();
                let (args, model) =
                    parse(&flags, self.budget.as_deref(), &self.out).map_err(|failure| in_method(failure.message))?;
                let config = args.config().map_err(|failure| in_method(failure.message))?;
                if config.record.is_some() {
                    return Err(
                        self.failure("`record`: a comparison records none of its runs; damper train records one")
                    );
                }
                if args.is_observed() {
                    return Err(self.failure(
                        "`events`, `tensorboard`: a comparison writes neither of its runs; damper train does",
                    ));
                }
                let source = args.source(model.clone());
                // With a budget, only charged runs read the data.
                if self.budget.is_none() && read.insert(format!("{source:?}")) {
                    let parts = train::read(&source, Some(config.backend));
                    let parts = parts.map_err(|error| self.of_method(method, Failure::in_model(&model, error)))?;
                    if parts.data.test.is_none() {
                        return Err(self.of_method(method, Failure::new(NO_TEST)));
                    }
                }
            }
        }
        Ok(())
    }

    fn of_method(&self, method: &ComparisonMethod, failure: Failure) -> Failure {
        self.failure(format!("{}: {}", heading(&method.label), failure.message))
    }
}
