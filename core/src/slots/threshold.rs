//! Any threshold.

use super::Held;
use crate::memory::Memory;
use crate::threshold::{CountNoise, Facts, Query, ReleasedCounts, Threshold};
use core::convert::Infallible;
use core::marker::PhantomData;

/// A rule for the clip with its memory: [`Threshold`] as an object.
pub trait AnyThreshold: Memory {
    /// As [`Threshold::clip`].
    fn clip(&self) -> f32;

    /// As [`Threshold::query`].
    fn query(&self) -> Query;

    /// As [`Threshold::count_noise`].
    fn count_noise(&self) -> Option<CountNoise>;

    /// As [`Threshold::update`].
    fn update(&mut self, released: &ReleasedCounts<'_>, facts: Facts);
}

impl<T: Threshold> Held<T, T::State, Infallible> {
    /// A threshold and its memory.
    pub fn threshold(config: T, state: T::State) -> Self {
        Self { config, state, step: None }
    }
}

impl<T: Threshold> AnyThreshold for Held<T, T::State, Infallible>
where
    T::State: Memory,
{
    fn clip(&self) -> f32 {
        self.config.clip(&self.state)
    }

    fn query(&self) -> Query {
        self.config.query(&self.state)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.config.count_noise()
    }

    fn update(&mut self, released: &ReleasedCounts<'_>, facts: Facts) {
        self.config.update(&mut self.state, released, facts);
    }
}

/// The slot of a threshold that is lent as its state, with memory for `COUNTS` counts in each step and shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThresholdSlot<'a, const COUNTS: usize = 20> {
    noise: Option<CountNoise>,
    lent: PhantomData<&'a mut ()>,
}

impl<const COUNTS: usize> ThresholdSlot<'_, COUNTS> {
    /// The slot of this threshold.
    pub fn of(threshold: &(impl AnyThreshold + ?Sized)) -> Self {
        Self { noise: threshold.count_noise(), lent: PhantomData }
    }
}

impl<'a, const COUNTS: usize> Threshold for ThresholdSlot<'a, COUNTS> {
    type State = &'a mut (dyn AnyThreshold + 'a);
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

    fn update(&self, state: &mut Self::State, released: &ReleasedCounts<'_>, facts: Facts) {
        state.update(released, facts);
    }
}
