//! A private search for a method's settings: how it is asked for, and what it releases.

use damper_accounting::CandidateCount;
use serde::{Deserialize, Serialize};

/// A private search for settings, as the file asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchPlan {
    /// The distribution of the number of candidates.
    pub candidates: CandidateCount,
    /// The figure that selects.
    pub score: Score,
}

/// The figure by which a candidate is selected. It is a release that is charged, or a function of public data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// Accuracy, or loss, with noise, on a part of the training split that no candidate trains on.
    #[default]
    Private,
    /// Accuracy, or loss, on the test split, which is public.
    Public,
}

impl Score {
    /// As the file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

impl SearchPlan {
    /// As flags, which tell runs apart.
    pub(super) fn flags(&self) -> [String; 2] {
        [format!("--tune-private={}", self.candidates), format!("--tune-score={}", self.score.name())]
    }
}

/// The release of a search: its best candidate, and nothing of the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// `key = value`, for each key that had several values.
    pub settings: Vec<String>,
    /// The score, as released.
    pub score: f64,
    /// ε of one candidate, at most; that of the search is the run's.
    pub candidate_epsilon: f64,
    /// The folder of its model and its ledger, in that of the comparison.
    pub folder: String,
}
