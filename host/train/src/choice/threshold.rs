//! Clipping thresholds by name: fixed, or learned from released counts (DC-SGD, quantile tracking).

use super::by_name::ByName;
use crate::TrainError;
use damper_core::error::ConfigError;
use damper_core::numerics::digest::Digest;
use damper_core::record::ToRecord;
use damper_core::slots::{self, AnyToRecord, StatefulSlot};
use damper_core::state::{SaveState, StateField};
use damper_core::threshold::{
    AllCounts, Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile,
    QuantileState, Query, ReleasedCounts, StepConstants, Threshold,
};
use damper_onnx::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of bins in a histogram of norms.
const BINS: usize = 20;

/// Formats a number, with an exponent if it would be long.
pub fn short(x: f32) -> String {
    if x == 0.0 || (1e-4..1e6).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// The rule for the clip of each step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum ThresholdChoice {
    /// The same clip in every step.
    Fixed {
        /// The clip.
        clip: f32,
    },
    /// DC-SGD-P: from a released histogram of norms, by percentile.
    Percentile {
        /// percentile, quantile: share of gradients to leave unclipped [default: 0.5]
        #[schemars(extend("x-value" = "P", "x-flag" = "percentile"))]
        fraction: f64,
        /// percentile, expected-error, quantile: standard deviation of the noise on each released count. A sample
        /// changes a count by 1. [default: 5, or 8 if sigma is at least 2, or 12 if it is above 3. With quantile, batch
        /// size / 10, twice the paper's sigma_b]
        #[schemars(extend("x-value" = "S", "x-flag" = "count_noise_multiplier"))]
        count_noise: Option<f64>,
        /// The clip of the first step.
        clip: f32,
        /// percentile, expected-error: range of the first histogram of norms [default: percentile 1, expected-error 20]
        #[schemars(extend("x-value" = "R", "x-flag" = "histogram_range", "x-alias" = "range"))]
        range: f32,
        /// Bounds of a learned clipping threshold [default: 1e-8,1e8]
        #[schemars(extend("x-value" = "MIN,MAX"))]
        clip_bounds: [f32; 2],
    },
    /// DC-SGD-E: from a released histogram of norms, by expected error.
    ExpectedError {
        /// expected-error: `paper-grid` searches multiples of the last clip, `exact` solves [default: paper-grid]
        #[schemars(extend("x-value" = "NAME"))]
        solver: SolverChoice,
        /// As in percentile.
        #[schemars(extend("x-value" = "S", "x-flag" = "count_noise_multiplier"))]
        count_noise: Option<f64>,
        /// The clip of the first step.
        clip: f32,
        /// As in percentile.
        #[schemars(extend("x-value" = "R", "x-flag" = "histogram_range", "x-alias" = "range"))]
        range: f32,
        /// As in percentile.
        #[schemars(extend("x-value" = "MIN,MAX"))]
        clip_bounds: [f32; 2],
        /// Bounds on the histogram's range.
        range_bounds: [f32; 2],
    },
    /// Tracks a quantile of the norms (Andrew et al.).
    Quantile {
        /// As in percentile.
        #[schemars(extend("x-value" = "P", "x-flag" = "percentile"))]
        fraction: f64,
        /// quantile: learning rate of the clip [default: 0.2]
        #[schemars(extend("x-value" = "R", "x-flag" = "clip_lr", "x-alias" = "threshold-rate"))]
        rate: f64,
        /// As in percentile.
        #[schemars(extend("x-value" = "S", "x-flag" = "count_noise_multiplier"))]
        count_noise: Option<f64>,
        /// The clip of the first step.
        clip: f32,
        /// As in percentile.
        #[schemars(extend("x-value" = "MIN,MAX"))]
        clip_bounds: [f32; 2],
    },
}

/// The solver for the clip of least expected error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum SolverChoice {
    /// A search over multiples of the last clip, as in the paper.
    #[default]
    PaperGrid,
    /// The closed form.
    Exact,
}

impl ByName for ThresholdChoice {
    const SETTING: &'static str = "clip_rule";

    fn named() -> Vec<(&'static str, Self)> {
        let (count_noise, clip, clip_bounds, fraction) = (None, 1.0, [1e-8, 1e8], 0.5);
        let (solver, range_bounds) = (SolverChoice::default(), [1e-8, 1e8]);
        vec![
            ("fixed", Self::Fixed { clip }),
            ("percentile", Self::Percentile { fraction, count_noise, clip, range: 1.0, clip_bounds }),
            (
                "expected-error",
                Self::ExpectedError { solver, count_noise, clip, range: 20.0, clip_bounds, range_bounds },
            ),
            ("quantile", Self::Quantile { fraction, rate: 0.2, count_noise, clip, clip_bounds }),
        ]
    }
}

impl Default for ThresholdChoice {
    fn default() -> Self {
        Self::Fixed { clip: 1.0 }
    }
}

impl ThresholdChoice {
    /// Returns the clip of the first step. If the rule is fixed, it is the clip of every step.
    #[must_use]
    pub fn clip(&self) -> f32 {
        match *self {
            Self::Fixed { clip }
            | Self::Percentile { clip, .. }
            | Self::ExpectedError { clip, .. }
            | Self::Quantile { clip, .. } => clip,
        }
    }

    /// Replaces the clip of the first step.
    #[must_use]
    pub fn with_clip(mut self, new: f32) -> Self {
        match &mut self {
            Self::Fixed { clip }
            | Self::Percentile { clip, .. }
            | Self::ExpectedError { clip, .. }
            | Self::Quantile { clip, .. } => *clip = new,
        }
        self
    }

    /// Returns true if the clip is the same in every step.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    fn count_noise_mut(&mut self) -> Option<&mut Option<f64>> {
        match self {
            Self::Fixed { .. } => None,
            Self::Percentile { count_noise, .. }
            | Self::ExpectedError { count_noise, .. }
            | Self::Quantile { count_noise, .. } => Some(count_noise),
        }
    }

    /// Returns true if `σ_H` is still to be derived from the noise of the whole event.
    pub(crate) fn wants_count_noise(mut self) -> bool {
        self.count_noise_mut() == Some(&mut None)
    }

    /// Returns true if a histogram of norms is released.
    #[must_use]
    pub fn has_histogram(&self) -> bool {
        matches!(self, Self::Percentile { .. } | Self::ExpectedError { .. })
    }

    /// Sets `σ_H` if it is open, for gradients with noise `total` if no counts were released. DC-SGD uses 5, or 8 if σ
    /// is at least 2, or 12 if σ is above 3.
    #[must_use]
    pub(crate) fn with_count_noise(mut self, total: f64) -> Self {
        let noise = match total {
            sigma if sigma < 2.0 => 5.0,
            sigma if sigma <= 3.0 => 8.0,
            _ => 12.0,
        };
        if let Some(unset @ None) = self.count_noise_mut() {
            *unset = Some(noise);
        }
        self
    }

    /// Returns the bounds of a learned clip.
    #[must_use]
    pub fn clip_bounds(&self) -> Option<(f32, f32)> {
        match *self {
            Self::Fixed { .. } => None,
            Self::Percentile { clip_bounds: [min, max], .. }
            | Self::ExpectedError { clip_bounds: [min, max], .. }
            | Self::Quantile { clip_bounds: [min, max], .. } => Some((min, max)),
        }
    }

    /// Returns an error if the bounds would silently replace the first clip or range.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        self.build(false)?;
        let clip = self.clip();
        if let Some((min, max)) = self.clip_bounds()
            && !(min..=max).contains(&clip)
        {
            let problem = format!(
                "outside `clip_bounds` {},{}, where a learned clip stays from the first step on; give one within, or wider bounds",
                short(min),
                short(max)
            );
            return Err(SettingError::new("clip", short(clip), problem).into());
        }
        let wide = Bounds::default();
        if let Self::ExpectedError { range, .. } = *self
            && !(wide.min()..=wide.max()).contains(&range)
        {
            let problem = format!("must be from {} to {}", short(wide.min()), short(wide.max()));
            return Err(SettingError::new("histogram_range", short(range), problem).into());
        }
        Ok(())
    }

    /// Builds the rule and its state. With `non_finite`, its histogram counts samples that are not finite.
    pub(crate) fn build(&self, non_finite: bool) -> Result<(ThresholdRule, AnyThresholdState), ConfigError> {
        let state = self.state()?;
        let rule = ThresholdRule { is_fixed: self.is_fixed(), count_noise: state.0.count_noise(), non_finite };
        Ok((rule, state))
    }

    fn state(&self) -> Result<AnyThresholdState, ConfigError> {
        let bounds = |[min, max]: [f32; 2]| Bounds::new(min, max);
        // The noise that the whole event still sets does not matter here.
        Ok(match self.with_count_noise(0.0) {
            Self::Fixed { clip } => held(Fixed(clip), ()),
            Self::Percentile { fraction, count_noise, clip, range, clip_bounds } => {
                let rule = Percentile::<BINS>::new(fraction, CountNoise::new(count_noise.unwrap_or_default())?)?;
                let state = PercentileState::new(clip, range)?;
                held(rule.within(bounds(clip_bounds)?), state)
            }
            Self::ExpectedError { solver, count_noise, clip, range, clip_bounds, range_bounds } => {
                let solver = match solver {
                    SolverChoice::PaperGrid => damper_core::threshold::Solver::PaperGrid,
                    SolverChoice::Exact => damper_core::threshold::Solver::Exact,
                };
                let rule = ExpectedError::<BINS>::new(solver, CountNoise::new(count_noise.unwrap_or_default())?)?;
                let state = ExpectedErrorState::new(clip, range)?;
                held(rule.within(bounds(clip_bounds)?, bounds(range_bounds)?), state)
            }
            Self::Quantile { fraction, rate, count_noise, clip, clip_bounds } => {
                let rule = Quantile::new(fraction, rate, count_noise.unwrap_or_default() / 2.0)?;
                let state = QuantileState::new(clip)?;
                held(rule.within(bounds(clip_bounds)?), state)
            }
        })
    }

    /// Returns the noise of the counts that each step releases next to its gradient.
    pub(crate) fn count_noise(&self) -> Result<Option<CountNoise>, ConfigError> {
        Ok(self.build(false)?.0.count_noise())
    }
}

fn held<M, S>(method: M, state: S) -> AnyThresholdState
where
    M: Threshold<State = S> + ToRecord<S> + 'static,
    S: SaveState + 'static,
{
    AnyThresholdState(Box::new(StatefulSlot::threshold(method, state)))
}

/// Any threshold rule. It is stored with its state.
#[derive(Clone, Copy)]
pub struct ThresholdRule {
    is_fixed: bool,
    count_noise: Option<CountNoise>,
    /// True if the histogram counts samples without finite gradients.
    non_finite: bool,
}

/// A rule with its state.
pub struct AnyThresholdState(Box<dyn StatefulThreshold>);

/// A rule that is stored with its state, which is saved across restarts.
trait StatefulThreshold: slots::AnyThreshold + SaveState + AnyToRecord {}

impl<T: slots::AnyThreshold + SaveState + AnyToRecord> StatefulThreshold for T {}

impl AnyThresholdState {
    /// Returns the rule in its recording form.
    pub(crate) fn to_record(&self) -> &dyn AnyToRecord {
        &*self.0
    }
}

impl SaveState for AnyThresholdState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.each(take);
    }
}

impl ThresholdRule {
    /// Returns the digest that recordings compare. `None` if the clip is fixed.
    pub(crate) fn learned(&self, state: &AnyThresholdState) -> Option<Digest> {
        (!self.is_fixed).then(|| self.digest(state))
    }
}

impl Threshold for ThresholdRule {
    type State = AnyThresholdState;
    type Counts = AllCounts<BINS>;

    fn counts(&self) -> AllCounts<BINS> {
        AllCounts::new(self.non_finite)
    }

    fn clip(&self, state: &AnyThresholdState) -> f32 {
        state.0.clip()
    }

    fn query(&self, state: &AnyThresholdState) -> Query {
        state.0.query()
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.count_noise
    }

    fn update(&self, state: &mut AnyThresholdState, released: &ReleasedCounts<'_>, constants: StepConstants) {
        state.0.update(released, constants);
    }
}
