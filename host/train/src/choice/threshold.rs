//! Thresholds: fixed, or learned from released counts (DC-SGD, quantile tracking).

use super::rule::Boxed;
use super::slot::ThresholdChoice;
use crate::TrainError;
use crate::replay::PackWriter;
use damper_core::described::UNSET;
use damper_core::error::ConfigError;
use damper_core::numerics::digest::Digest;
use damper_core::slots::{self, StatefulSlot};
use damper_core::state::{SaveState, StateField};
use damper_core::threshold::{
    AllCounts, Bounds, Builder, CountNoise, Query, ReleasedCounts, StepConstants, Threshold, build,
};
use damper_onnx::SettingError;

/// Bins of a histogram of norms.
const BINS: usize = 20;

/// A number with its power of ten where it would be long.
pub fn short(x: f32) -> String {
    if x == 0.0 || (1e-4..1e6).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

impl ThresholdChoice {
    /// The clip of the first step; of every step, where the rule is fixed.
    #[must_use]
    pub fn clip(&self) -> f32 {
        self.get("clip").unwrap_or_default() as f32
    }

    /// The same with this clip at the first step.
    #[must_use]
    pub fn with_clip(self, clip: f32) -> Self {
        self.with(&[("clip", clip.into())]).unwrap_or(self)
    }

    /// Returns true if `σ_H` is to be set by the noise of the whole event.
    pub(crate) fn wants_count_noise(&self) -> bool {
        self.get("count_noise") == Some(UNSET)
    }

    /// Returns true if a histogram of norms is released.
    pub(crate) fn has_histogram(&self) -> bool {
        self.get("range").is_some()
    }

    /// The same with `σ_H` set, for gradients whose noise would be `total` without counts. DC-SGD sets it by the size of σ:
    /// 5, from 2 on 8, and above 3 on 12.
    #[must_use]
    pub(crate) fn with_count_noise(self, total: f64) -> Self {
        let noise = match total {
            sigma if sigma < 2.0 => 5.0,
            sigma if sigma <= 3.0 => 8.0,
            _ => 12.0,
        };
        if self.wants_count_noise() { self.with(&[("count_noise", noise)]).unwrap_or(self) } else { self }
    }

    /// The bounds of a learned clip.
    #[must_use]
    pub fn clip_bounds(&self) -> Option<(f32, f32)> {
        Some((self.get("min")? as f32, self.get("max")? as f32))
    }

    /// Refuses a first clip or range that the bounds would silently replace.
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
        if let (Some(range), Some(_)) = (self.get("range"), self.get("range_min"))
            && !(wide.min()..=wide.max()).contains(&(range as f32))
        {
            let problem = format!("must be from {} to {}", short(wide.min()), short(wide.max()));
            return Err(SettingError::new("histogram_range", short(range as f32), problem).into());
        }
        Ok(())
    }

    /// The rule and its state; whether its histogram counts samples that are not finite.
    pub(crate) fn build(&self, non_finite: bool) -> Result<(AnyThreshold, AnyThresholdState), ConfigError> {
        let state = build(self.with_count_noise(0.0).builder(0))?.expect("the description is of the list");
        let rule = AnyThreshold { is_fixed: self.is_usual(), count_noise: state.0.count_noise(), non_finite };
        Ok((rule, state))
    }

    /// Writes the rule as recordings have it.
    pub(crate) fn record(&self, pack: &mut PackWriter) -> Result<(), ConfigError> {
        build(self.recorder(pack)).map(drop)
    }

    /// The noise of the counts that each step releases beside its gradient.
    pub(crate) fn count_noise(&self) -> Result<Option<CountNoise>, ConfigError> {
        Ok(self.build(false)?.0.count_noise())
    }
}

impl Builder<'static> for Boxed<'_> {
    type Built = AnyThresholdState;

    fn take<M, S>(self, method: M, state: S) -> Result<AnyThresholdState, ConfigError>
    where
        M: Threshold<State = S> + 'static,
        S: SaveState + 'static,
    {
        Ok(AnyThresholdState(Box::new(StatefulSlot::threshold(method, state))))
    }
}

/// Any rule: it lies with its state.
#[derive(Clone, Copy)]
pub struct AnyThreshold {
    is_fixed: bool,
    count_noise: Option<CountNoise>,
    /// Its histogram counts samples whose gradients are not finite.
    non_finite: bool,
}

/// A rule with its state.
pub struct AnyThresholdState(Box<dyn Stateful>);

/// A rule that lies with its state, which is saved over a restart.
trait Stateful: slots::AnyThreshold + SaveState {}

impl<T: slots::AnyThreshold + SaveState> Stateful for T {}

impl SaveState for AnyThresholdState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.each(take);
    }
}

impl AnyThreshold {
    /// The digest that recordings compare; none if the clip is fixed.
    pub(crate) fn learned(&self, state: &AnyThresholdState) -> Option<Digest> {
        (!self.is_fixed).then(|| self.digest(state))
    }
}

impl Threshold for AnyThreshold {
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
