//! Threshold chosen at run time.

use super::held::StatefulSlot;
use crate::threshold::{CountNoise, Query, ReleasedCounts, StepConstants, Threshold};
use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;

/// [`Threshold`] as a trait object, with its state.
///
/// ```
/// use damper_core::count::{CountNoise, Query};
/// use damper_core::slots::{AnyThreshold, StatefulSlot};
/// use damper_core::threshold::{Percentile, PercentileState};
///
/// let rule = Percentile::<20>::new(0.8, CountNoise::new(5.0)?)?;
/// let slot = StatefulSlot::threshold(rule, PercentileState::new(1.0, 2.0)?);
/// let threshold: &dyn AnyThreshold = &slot;
/// assert_eq!(threshold.query(), Query::Histogram { bins: 20, range: 2.0 });
/// assert_eq!(threshold.count_noise().map(|noise| noise.multiplier()), Some(5.0));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait AnyThreshold {
    /// As [`Threshold::clip`].
    fn clip(&self) -> f32;

    /// As [`Threshold::query`].
    fn query(&self) -> Query;

    /// As [`Threshold::count_noise`].
    fn count_noise(&self) -> Option<CountNoise>;

    /// As [`Threshold::update`].
    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants);
}

impl<T: Threshold> StatefulSlot<T, T::State, Infallible> {
    /// Creates a slot from a threshold and its state.
    pub fn threshold(config: T, state: T::State) -> Self {
        Self { config, state, step: None }
    }
}

impl<T: Threshold> AnyThreshold for StatefulSlot<T, T::State, Infallible> {
    fn clip(&self) -> f32 {
        self.config.clip(&self.state)
    }

    fn query(&self) -> Query {
        self.config.query(&self.state)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.config.count_noise()
    }

    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants) {
        self.config.update(&mut self.state, released, constants);
    }
}

/// Slot of a threshold that is borrowed as its own state, as an object of type `A`. Each step and each shard has memory
/// for `COUNTS` counts.
pub struct ThresholdSlot<'a, const COUNTS: usize = 20, A: ?Sized = dyn AnyThreshold + 'a> {
    noise: Option<CountNoise>,
    /// The clip if it never changes, else 0.
    clip: f32,
    lent: PhantomData<&'a mut A>,
}

impl<const COUNTS: usize, A: AnyThreshold + ?Sized> ThresholdSlot<'_, COUNTS, A> {
    /// Returns the slot of this threshold.
    pub fn of(threshold: &(impl AnyThreshold + ?Sized)) -> Self {
        let noise = threshold.count_noise();
        Self { noise, clip: if noise.is_none() { threshold.clip() } else { 0.0 }, lent: PhantomData }
    }
}

// Not derived: a derive would put the bound on `A`.
impl<const COUNTS: usize, A: ?Sized> Clone for ThresholdSlot<'_, COUNTS, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const COUNTS: usize, A: ?Sized> Copy for ThresholdSlot<'_, COUNTS, A> {}

impl<const COUNTS: usize, A: ?Sized> PartialEq for ThresholdSlot<'_, COUNTS, A> {
    fn eq(&self, other: &Self) -> bool {
        self.noise == other.noise
    }
}

impl<const COUNTS: usize, A: ?Sized> fmt::Debug for ThresholdSlot<'_, COUNTS, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThresholdSlot").field("noise", &self.noise).finish()
    }
}

impl<'a, const COUNTS: usize, A: AnyThreshold + ?Sized> Threshold for ThresholdSlot<'a, COUNTS, A> {
    type State = &'a mut A;
    type Counts = [i32; COUNTS];

    fn clip(&self, state: &Self::State) -> f32 {
        state.clip()
    }

    fn query(&self, state: &Self::State) -> Query {
        state.query()
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.noise
    }

    fn fixed_clip(&self) -> f32 {
        self.clip
    }

    fn update(&self, state: &mut Self::State, released: &ReleasedCounts<'_>, constants: StepConstants) {
        state.update(released, constants);
    }
}
