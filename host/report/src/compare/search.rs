//! Private search for a method's settings: its request and its release.

use damper_accounting::CandidateCount;
use serde::{Deserialize, Serialize};

/// Private search for settings, as requested in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchPlan {
    /// Distribution of the number of candidates.
    pub candidates: CandidateCount,
    /// Figure that selects the best candidate.
    pub score: Score,
}

/// Figure that selects the best candidate: a charged release, or a function of public data.
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
    /// Returns the name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

impl SearchPlan {
    /// Returns the flags that distinguish runs.
    pub(super) fn flags(&self) -> [String; 2] {
        [format!("--tune-private={}", self.candidates), format!("--tune-score={}", self.score.name())]
    }
}

/// Release of a search: only its best candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// `key = value`, for each key that had several values.
    pub settings: Vec<String>,
    /// The score, as released.
    pub score: f64,
    /// Upper bound on ε of one candidate. ε of the search is that of the run.
    pub candidate_epsilon: f64,
    /// Folder of its model and its ledger, within the comparison's folder.
    pub folder: String,
}
