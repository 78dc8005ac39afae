//! Thresholds: fixed, or learned from released counts (DC-SGD, quantile tracking).

use super::MISMATCH;
use damper_core::error::ConfigError;
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Facts, Fixed, Percentile, PercentileState, Quantile, QuantileState,
    Query, ReleasedCounts, Solver, Threshold,
};

/// Bins of a histogram of norms.
const BINS: usize = 20;

/// Which clip each step uses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThresholdChoice {
    /// The clip of the first step; of every step, where the rule is fixed.
    pub clip: f32,
    /// How it goes on.
    pub rule: ThresholdRule,
}

/// How the clip goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ThresholdRule {
    /// It stays.
    Fixed,
    /// DC-SGD-P.
    Percentile {
        /// Share of gradients to leave unclipped.
        fraction: f64,
        /// `σ_H`.
        count_noise: f64,
        /// `R_0`.
        range: f32,
    },
    /// DC-SGD-E.
    ExpectedError {
        /// How the minimum is found.
        solver: Solver,
        /// `σ_H`.
        count_noise: f64,
        /// `R_0`.
        range: f32,
    },
    /// Quantile tracking (Andrew et al.).
    Quantile {
        /// Share of gradients to leave unclipped.
        fraction: f64,
        /// `η_C`.
        rate: f64,
        /// `σ_b`.
        count_noise: f64,
    },
}

impl ThresholdChoice {
    /// The rule and its memory.
    pub(crate) fn build(self) -> Result<(AnyThreshold, AnyThresholdState), ConfigError> {
        Ok(match self.rule {
            ThresholdRule::Fixed => (AnyThreshold::Fixed(Fixed(self.clip)), AnyThresholdState::Fixed),
            ThresholdRule::Percentile { fraction, count_noise, range } => (
                AnyThreshold::Percentile(Percentile::new(fraction, CountNoise::new(count_noise)?)?),
                AnyThresholdState::Percentile(PercentileState::new(self.clip, range)?),
            ),
            ThresholdRule::ExpectedError { solver, count_noise, range } => (
                AnyThreshold::ExpectedError(ExpectedError::new(solver, CountNoise::new(count_noise)?)?),
                AnyThresholdState::ExpectedError(ExpectedErrorState::new(self.clip, range)?),
            ),
            ThresholdRule::Quantile { fraction, rate, count_noise } => (
                AnyThreshold::Quantile(Quantile::new(fraction, rate, count_noise)?),
                AnyThresholdState::Quantile(QuantileState::new(self.clip)?),
            ),
        })
    }

    /// The noise of the counts that each step releases beside its gradient.
    pub(crate) fn count_noise(self) -> Result<Option<CountNoise>, ConfigError> {
        Ok(self.build()?.0.count_noise())
    }
}

/// A rule of the core.
#[derive(Clone, Copy)]
pub(crate) enum AnyThreshold {
    Fixed(Fixed),
    Percentile(Percentile<BINS>),
    ExpectedError(ExpectedError<BINS>),
    Quantile(Quantile),
}

/// Its memory.
pub(crate) enum AnyThresholdState {
    Fixed,
    Percentile(PercentileState),
    ExpectedError(ExpectedErrorState),
    Quantile(QuantileState),
}

impl Threshold for AnyThreshold {
    type State = AnyThresholdState;
    type Counts = [i32; BINS];

    fn clip(&self, state: &AnyThresholdState) -> f32 {
        match (self, state) {
            (Self::Fixed(rule), AnyThresholdState::Fixed) => rule.clip(&()),
            (Self::Percentile(rule), AnyThresholdState::Percentile(state)) => rule.clip(state),
            (Self::ExpectedError(rule), AnyThresholdState::ExpectedError(state)) => rule.clip(state),
            (Self::Quantile(rule), AnyThresholdState::Quantile(state)) => rule.clip(state),
            _ => unreachable!("{MISMATCH}"),
        }
    }

    fn query(&self, state: &AnyThresholdState) -> Query {
        match (self, state) {
            (Self::Percentile(rule), AnyThresholdState::Percentile(state)) => rule.query(state),
            (Self::ExpectedError(rule), AnyThresholdState::ExpectedError(state)) => rule.query(state),
            (Self::Quantile(rule), AnyThresholdState::Quantile(state)) => rule.query(state),
            _ => Query::None,
        }
    }

    fn count_noise(&self) -> Option<CountNoise> {
        match self {
            Self::Fixed(_) => None,
            Self::Percentile(rule) => rule.count_noise(),
            Self::ExpectedError(rule) => rule.count_noise(),
            Self::Quantile(rule) => rule.count_noise(),
        }
    }

    fn update(&self, state: &mut AnyThresholdState, released: &ReleasedCounts<'_>, facts: Facts) {
        match (self, state) {
            (Self::Percentile(rule), AnyThresholdState::Percentile(state)) => rule.update(state, released, facts),
            (Self::ExpectedError(rule), AnyThresholdState::ExpectedError(state)) => rule.update(state, released, facts),
            (Self::Quantile(rule), AnyThresholdState::Quantile(state)) => rule.update(state, released, facts),
            _ => {}
        }
    }
}
