//! A private search as a record holds it.

use super::super::recorded_event::RecordedEvent;
use super::count::CandidateCount;
use serde::{Deserialize, Serialize};

/// A search whose candidates have the events of the record, or others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The distribution of the number of candidates.
    pub candidates: CandidateCount,
    /// Events of candidates that differ from those of the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<CandidateEvents>,
}

/// Events of one candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateEvents {
    /// From training samples.
    pub events: Vec<RecordedEvent>,
    /// From held-out samples: its score, if that has noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<RecordedEvent>,
}
