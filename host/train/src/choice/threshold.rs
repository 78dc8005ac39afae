//! Thresholds: fixed, or learned from released counts (DC-SGD, quantile tracking).

use crate::TrainError;
use damper_core::error::ConfigError;
use damper_core::numerics::digest::Digest;
use damper_core::slots::{self, StatefulSlot};
use damper_core::state::{SaveState, StateField};
use damper_core::threshold::{
    AllCounts, Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile,
    QuantileState, Query, ReleasedCounts, Solver, StepConstants, Threshold,
};
use damper_onnx::SettingError;

/// Bins of a histogram of norms.
const BINS: usize = 20;

/// Which clip each step uses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThresholdChoice {
    /// The clip of the first step; of every step, where the rule is fixed.
    pub clip: f32,
    /// How it goes on.
    pub rule: ThresholdRule,
    /// Where a learned clip stays; the core's wide bounds if not given.
    pub bounds: Option<(f32, f32)>,
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
        /// `σ_H`; by the noise of the whole event if not given.
        count_noise: Option<f64>,
        /// `R_0`.
        range: f32,
    },
    /// DC-SGD-E.
    ExpectedError {
        /// How the minimum is found.
        solver: Solver,
        /// `σ_H`; by the noise of the whole event if not given.
        count_noise: Option<f64>,
        /// `R_0`.
        range: f32,
    },
    /// Quantile tracking (Andrew et al.).
    Quantile {
        /// Share of gradients to leave unclipped.
        fraction: f64,
        /// `η_C`.
        rate: f64,
        /// The noise on the released count, `2σ_b`: what is priced.
        count_noise: f64,
    },
}

/// A number with its power of ten where it would be long.
pub fn short(x: f32) -> String {
    if x == 0.0 || (1e-4..1e6).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

impl ThresholdChoice {
    /// Whether `σ_H` is to be set by the noise of the whole event.
    pub(crate) fn wants_count_noise(self) -> bool {
        matches!(
            self.rule,
            ThresholdRule::Percentile { count_noise: None, .. }
                | ThresholdRule::ExpectedError { count_noise: None, .. }
        )
    }

    /// Whether a histogram of norms is released.
    pub(crate) fn has_histogram(self) -> bool {
        matches!(self.rule, ThresholdRule::Percentile { .. } | ThresholdRule::ExpectedError { .. })
    }

    /// The same with `σ_H` set, for gradients whose noise would be `total` without counts. DC-SGD sets it by the size of σ:
    /// 5, from 2 on 8, and above 3 on 12.
    #[must_use]
    pub(crate) fn with_count_noise(mut self, total: f64) -> Self {
        if let ThresholdRule::Percentile { count_noise, .. } | ThresholdRule::ExpectedError { count_noise, .. } =
            &mut self.rule
        {
            count_noise.get_or_insert(match total {
                sigma if sigma < 2.0 => 5.0,
                sigma if sigma <= 3.0 => 8.0,
                _ => 12.0,
            });
        }
        self
    }

    /// `σ_H`, or what it is where nothing sets it.
    pub(crate) fn noise_of(given: Option<f64>) -> f64 {
        given.unwrap_or(5.0)
    }

    /// Where a learned clip stays.
    pub fn clip_bounds(self) -> (f32, f32) {
        let wide = Bounds::default();
        self.bounds.unwrap_or((wide.min(), wide.max()))
    }

    /// Refuses a first clip or range that the bounds would silently replace.
    pub(crate) fn check(self) -> Result<(), TrainError> {
        self.build()?;
        let within = |x: f32, (min, max): (f32, f32)| (min..=max).contains(&x);
        let bounds = self.clip_bounds();
        if self.rule != ThresholdRule::Fixed && !within(self.clip, bounds) {
            let problem = format!(
                "outside `clip_bounds` {},{}, where a learned clip stays from the first step on; give one within, or wider bounds",
                short(bounds.0),
                short(bounds.1)
            );
            return Err(SettingError::new("clip", short(self.clip), problem).into());
        }
        let wide = Bounds::default();
        if let ThresholdRule::ExpectedError { range, .. } = self.rule
            && !within(range, (wide.min(), wide.max()))
        {
            let problem = format!("must be from {} to {}", short(wide.min()), short(wide.max()));
            return Err(SettingError::new("histogram_range", short(range), problem).into());
        }
        Ok(())
    }

    /// The rule and its state; whether its histogram counts samples that are not finite.
    pub(crate) fn build_counting(self, non_finite: bool) -> Result<(AnyThreshold, AnyThresholdState), ConfigError> {
        let (rule, state) = self.build()?;
        Ok((AnyThreshold { non_finite, ..rule }, state))
    }

    /// The rule and its state.
    pub(crate) fn build(self) -> Result<(AnyThreshold, AnyThresholdState), ConfigError> {
        let clips = self.bounds.map_or(Ok(Bounds::default()), |(min, max)| Bounds::new(min, max))?;
        let count_noise_of = |given| CountNoise::new(Self::noise_of(given));
        let state: Box<dyn Stateful> = match self.rule {
            ThresholdRule::Fixed => Box::new(StatefulSlot::threshold(Fixed(self.clip), ())),
            ThresholdRule::Percentile { fraction, count_noise, range } => {
                let rule = Percentile::<BINS>::new(fraction, count_noise_of(count_noise)?)?.within(clips);
                Box::new(StatefulSlot::threshold(rule, PercentileState::new(self.clip, range)?))
            }
            ThresholdRule::ExpectedError { solver, count_noise, range } => {
                let rule = ExpectedError::<BINS>::new(solver, count_noise_of(count_noise)?)?;
                let state = ExpectedErrorState::new(self.clip, range)?;
                Box::new(StatefulSlot::threshold(rule.within(clips, Bounds::default()), state))
            }
            ThresholdRule::Quantile { fraction, rate, count_noise } => {
                let rule = Quantile::new(fraction, rate, count_noise / 2.0)?.within(clips);
                Box::new(StatefulSlot::threshold(rule, QuantileState::new(self.clip)?))
            }
        };
        let is_fixed = self.rule == ThresholdRule::Fixed;
        Ok((AnyThreshold { is_fixed, count_noise: state.count_noise(), non_finite: false }, AnyThresholdState(state)))
    }

    /// The noise of the counts that each step releases beside its gradient.
    pub(crate) fn count_noise(self) -> Result<Option<CountNoise>, ConfigError> {
        Ok(self.build()?.0.count_noise())
    }
}

/// Any rule: it lies with its state.
#[derive(Clone, Copy)]
pub(crate) struct AnyThreshold {
    is_fixed: bool,
    count_noise: Option<CountNoise>,
    /// Its histogram counts samples whose gradients are not finite.
    non_finite: bool,
}

/// A rule with its state.
pub(crate) struct AnyThresholdState(Box<dyn Stateful>);

/// A rule that lies with its state, which is saved over a restart.
trait Stateful: slots::AnyThreshold + SaveState {}

impl<T: slots::AnyThreshold + SaveState> Stateful for T {}

impl SaveState for AnyThresholdState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.each(take);
    }
}

impl AnyThreshold {
    /// What recordings compare of it; none if the clip is fixed.
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
