//! Draws of a record.

use damper_core::accounting::event::SampledGaussian;
use serde::{Deserialize, Serialize};

/// Draws that were all alike.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEvent {
    /// `k` of the sampling rate `k/2^53`.
    pub sampling_rate_numerator: u64,
    /// σ over the sensitivity, all releases of the draw together.
    pub noise_multiplier: f64,
    /// Number of draws.
    pub times: u64,
}

impl RecordedEvent {
    /// An event, and how often it came.
    #[must_use]
    pub fn new((event, times): &(SampledGaussian, u64)) -> Self {
        Self { sampling_rate_numerator: event.rate().numerator(), noise_multiplier: event.multiplier(), times: *times }
    }
}
