//! Plan of a comparison: methods, budgets, repeats, and the resulting single runs.

use super::search::SearchPlan;
use serde::{Deserialize, Serialize};

/// Share of the training split that tuning holds out.
pub const TUNING_PART: f64 = 0.2;

/// Plan of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonPlan {
    /// Columns of the table.
    pub budgets: Budgets,
    /// Number of repeats of each run.
    pub repeats: Repeats,
    /// Rows of the table, at least one.
    pub methods: Vec<ComparisonMethod>,
    /// Settings that all methods share, as text.
    pub shared: Vec<String>,
    /// Private search that tunes methods with several values, if the file asks for it.
    pub search: Option<SearchPlan>,
}

/// Budgets, in the given order.
#[derive(Clone, PartialEq, Debug)]
pub struct Budgets {
    /// `epsilon`, `noise-multiplier` or `equation-6`.
    pub flag: &'static str,
    /// Values, at least one.
    pub values: Vec<f64>,
}

/// Number of repeats of each run, and their keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repeats {
    /// Simulations with these seeds.
    Seeds(Vec<u64>),
    /// This number of private runs, with keys from the operating system.
    Keys(usize),
}

impl Repeats {
    /// Returns the number of runs of each method at each budget.
    pub fn count(&self) -> usize {
        match self {
            Self::Seeds(seeds) => seeds.len(),
            Self::Keys(count) => *count,
        }
    }
}

/// A method: a row of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonMethod {
    /// Name of the method in the table.
    pub label: String,
    /// Settings, including the shared settings. Each has at least one candidate value.
    pub settings: Vec<Vec<Setting>>,
    /// Settings of the method's own table, as text.
    pub own: Vec<String>,
    /// SHA-256 of the model file, in hexadecimal. Empty if the file cannot be read.
    pub model: String,
}

/// A key with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Readable form: `key = value`.
    pub text: String,
    /// The same as flags of `damper train`.
    pub flags: Vec<String>,
}

impl ComparisonMethod {
    /// Returns every combination of the candidate values. Without tuning there is one combination. The last setting
    /// changes fastest.
    pub(super) fn candidates(&self) -> Vec<Vec<&Setting>> {
        let mut all: Vec<Vec<&Setting>> = vec![Vec::new()];
        for values in &self.settings {
            all = all
                .iter()
                .flat_map(|settings| values.iter().map(|value| [settings.as_slice(), &[value]].concat()))
                .collect();
        }
        all
    }

    /// Returns combinations that cover every value. Each combination has the first value of all settings except one.
    pub fn each_value(&self) -> Vec<Vec<&Setting>> {
        let first: Vec<&Setting> = self.settings.iter().filter_map(|values| values.first()).collect();
        let mut all = vec![first.clone()];
        for (at, values) in self.settings.iter().enumerate() {
            for value in values.iter().skip(1) {
                let mut settings = first.clone();
                settings[at] = value;
                all.push(settings);
            }
        }
        all
    }

    /// Returns the number of combinations.
    pub(super) fn candidate_count(&self) -> usize {
        self.settings.iter().map(Vec::len).fold(1, usize::saturating_mul)
    }

    /// Returns the tuned settings among `settings`, a candidate.
    pub(super) fn chosen(&self, settings: &[&Setting]) -> Vec<String> {
        let pairs = self.settings.iter().zip(settings);
        pairs.filter(|(values, _)| values.len() > 1).map(|(_, setting)| setting.text.clone()).collect()
    }
}

/// Purpose of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonPurpose {
    /// A figure of the table, measured on the test split.
    Final,
    /// A choice of settings, on a held-out part of the training split.
    Tuning,
}

/// A run: everything that its figures depend on, except the data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Name of the method in the table.
    pub label: String,
    /// Budget of its column.
    pub budget: f64,
    /// Purpose of the run.
    pub purpose: ComparisonPurpose,
    /// `key = value`, for each key that had several values.
    pub chosen: Vec<String>,
    /// Number of the repeat, from 1.
    pub repeat: usize,
    /// Seed of a simulation.
    pub seed: Option<u64>,
    /// Flags of `damper train`, sorted, including budget, seed, model and outputs. For a private search only budget,
    /// seed and the flags of the search.
    pub flags: Vec<String>,
    /// Candidates of a private search: the flags of each, without budget and seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Vec<String>>,
    /// SHA-256 of the model file.
    pub model: String,
    /// Version of damper that ran it.
    pub damper: String,
}

impl Task {
    /// Returns true if both are the same run. The name in the table does not matter.
    pub(super) fn is_same_run(&self, other: &Self) -> bool {
        let Self { label: _, budget: _, chosen: _, purpose, repeat, seed, flags, candidates, model, damper } = self;
        // Runs with the same seed are equal at any position of the seed in the list.
        (*purpose, *seed) == (other.purpose, other.seed)
            && (seed.is_some() || *repeat == other.repeat)
            && *flags == other.flags
            && *candidates == other.candidates
            && *model == other.model
            && *damper == other.damper
    }
}

impl ComparisonPlan {
    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.methods.iter().map(|method| self.runs_of(method)).fold(0, usize::saturating_add)
    }

    pub(super) fn runs_of(&self, method: &ComparisonMethod) -> usize {
        let candidates = method.candidate_count();
        let tuning = if candidates > 1 && self.search.is_none() { candidates } else { 0 };
        self.budgets.values.len().saturating_mul(tuning.saturating_add(self.repeats.count()))
    }

    pub(super) fn task(
        &self,
        method: &ComparisonMethod,
        budget: f64,
        settings: &[&Setting],
        repeat: usize,
        purpose: ComparisonPurpose,
    ) -> Task {
        let seed = match &self.repeats {
            Repeats::Seeds(seeds) => seeds.get(repeat).copied(),
            Repeats::Keys(_) => None,
        };
        let mut flags: Vec<String> = settings.iter().flat_map(|setting| setting.flags.iter().cloned()).collect();
        flags.push(self.budgets.flag(budget));
        flags.extend(seed.map(|seed| format!("--seed={seed}")));
        flags.sort();
        Task {
            label: method.label.clone(),
            budget,
            purpose,
            chosen: method.chosen(settings),
            repeat: repeat + 1,
            seed,
            flags,
            candidates: Vec::new(),
            model: method.model.clone(),
            damper: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl ComparisonPlan {
    /// Returns the task of a private search among `candidates` of `method`.
    pub(super) fn search_task(
        &self,
        method: &ComparisonMethod,
        budget: f64,
        candidates: &[Vec<&Setting>],
        repeat: usize,
        search: &SearchPlan,
    ) -> Task {
        let mut task = self.task(method, budget, &[], repeat, ComparisonPurpose::Final);
        task.flags.extend(search.flags());
        task.flags.sort();
        let flags = |settings: &Vec<&Setting>| {
            let mut flags: Vec<String> = settings.iter().flat_map(|setting| setting.flags.iter().cloned()).collect();
            flags.sort();
            flags
        };
        task.candidates = candidates.iter().map(flags).collect();
        task
    }

    /// Returns the settings of candidate `number` of `method`, as text.
    #[must_use]
    pub fn settings_of(&self, label: &str, number: usize) -> Vec<String> {
        let method = self.methods.iter().find(|method| method.label == label);
        let settings = method.and_then(|method| Some((method, method.candidates().into_iter().nth(number)?)));
        settings.map_or_else(Vec::new, |(method, settings)| method.chosen(&settings))
    }
}

impl Budgets {
    /// Returns the budget as a flag.
    pub fn flag(&self, value: f64) -> String {
        format!("--{}={value}", self.flag)
    }

    /// Returns the kind of budget, as text.
    pub fn name(&self) -> &'static str {
        match self.flag {
            "epsilon" => "epsilon",
            "equation-6" => "equation 6",
            _ => "noise multiplier",
        }
    }
}
