//! Plan of a comparison: methods, budgets, repeats, and the single runs that follow from them.

use super::search::SearchPlan;
use serde::{Deserialize, Serialize};

/// The part of the training split that tuning holds out.
pub const TUNING_PART: f64 = 0.2;

/// The plan of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonPlan {
    /// The columns.
    pub budgets: Budgets,
    /// Number of repeats of each run.
    pub repeats: Repeats,
    /// The rows, at least one.
    pub methods: Vec<ComparisonMethod>,
    /// The settings that all methods share, in words.
    pub shared: Vec<String>,
    /// The private search that tunes methods with several values, if the file asks for one.
    pub search: Option<SearchPlan>,
}

/// The budgets, smallest first as given.
#[derive(Clone, PartialEq, Debug)]
pub struct Budgets {
    /// `epsilon`, `noise-multiplier` or `equation-6`.
    pub flag: &'static str,
    /// At least one.
    pub values: Vec<f64>,
}

/// How often each run is repeated, and with which keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repeats {
    /// With these seeds: simulations.
    Seeds(Vec<u64>),
    /// So often, with keys from the operating system: private runs.
    Keys(usize),
}

impl Repeats {
    /// Runs of each method at each budget.
    pub fn count(&self) -> usize {
        match self {
            Self::Seeds(seeds) => seeds.len(),
            Self::Keys(count) => *count,
        }
    }
}

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonMethod {
    /// Its name in the table.
    pub label: String,
    /// Its settings, the shared ones among them; for each, the values to choose from, at least one.
    pub settings: Vec<Vec<Setting>>,
    /// The settings of the method's own table, in words.
    pub own: Vec<String>,
    /// SHA-256 of the model file, in hexadecimal; empty where it cannot be read.
    pub model: String,
}

/// A key with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// `key = value`, for people.
    pub text: String,
    /// The same as flags of `damper train`.
    pub flags: Vec<String>,
}

impl ComparisonMethod {
    /// Every combination of the values to choose from; one, where nothing is to be chosen. The last setting changes
    /// fastest.
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

    /// Settings that together have every value, each setting's first beside another's others.
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

    /// Number of combinations.
    pub(super) fn candidate_count(&self) -> usize {
        self.settings.iter().map(Vec::len).fold(1, usize::saturating_mul)
    }

    /// The tuned settings among `settings`, one of the candidates.
    pub(super) fn chosen(&self, settings: &[&Setting]) -> Vec<String> {
        let pairs = self.settings.iter().zip(settings);
        pairs.filter(|(values, _)| values.len() > 1).map(|(_, setting)| setting.text.clone()).collect()
    }
}

/// Purpose of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonPurpose {
    /// A figure of the table, of the test split.
    Final,
    /// A choice of settings, by a held-out part of the training split.
    Tuning,
}

/// One run: all that its figures depend on, but the data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The method's name in the table.
    pub label: String,
    /// Its column.
    pub budget: f64,
    /// Its purpose.
    pub purpose: ComparisonPurpose,
    /// `key = value`, for each key that had several values.
    pub chosen: Vec<String>,
    /// Number of the repeat, from 1.
    pub repeat: usize,
    /// The seed of a simulation.
    pub seed: Option<u64>,
    /// Flags of `damper train`, sorted: budget and seed among them, model and outputs too. Of a private search budget and seed alone, and how it
    /// searches.
    pub flags: Vec<String>,
    /// The candidates of a private search: the flags of each, without budget and seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Vec<String>>,
    /// SHA-256 of the model file.
    pub model: String,
    /// The version of damper that ran it.
    pub damper: String,
}

impl Task {
    /// Returns true if the two are the same run. Its name in the table does not matter.
    pub(super) fn is_same_run(&self, other: &Self) -> bool {
        let Self { label: _, budget: _, chosen: _, purpose, repeat, seed, flags, candidates, model, damper } = self;
        // Runs of a seed are the same wherever the seed stands in the list.
        (*purpose, *seed) == (other.purpose, other.seed)
            && (seed.is_some() || *repeat == other.repeat)
            && *flags == other.flags
            && *candidates == other.candidates
            && *model == other.model
            && *damper == other.damper
    }
}

impl ComparisonPlan {
    /// Number of runs.
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
    /// A private search among `candidates` of `method`.
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

    /// The settings of candidate `number` of `method`, in words.
    #[must_use]
    pub fn settings_of(&self, label: &str, number: usize) -> Vec<String> {
        let method = self.methods.iter().find(|method| method.label == label);
        let settings = method.and_then(|method| Some((method, method.candidates().into_iter().nth(number)?)));
        settings.map_or_else(Vec::new, |(method, settings)| method.chosen(&settings))
    }
}

impl Budgets {
    /// The budget as a flag.
    pub fn flag(&self, value: f64) -> String {
        format!("--{}={value}", self.flag)
    }

    /// The kind of budget, in words.
    pub fn name(&self) -> &'static str {
        match self.flag {
            "epsilon" => "epsilon",
            "equation-6" => "equation 6",
            _ => "noise multiplier",
        }
    }
}
