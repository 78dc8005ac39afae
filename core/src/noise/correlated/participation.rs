//! Participation of a sample: the largest number of its steps, and their smallest distance.

use crate::error::ConfigError;
use crate::numerics::digest::Digest;
use core::ops::Range;

/// Participation pattern: a sample takes part in at most `participations` of `steps` steps, any two at least
/// `separation` apart. The steps of a sample never depend on data.
///
/// After [`of_samples`](Self::of_samples), it also determines the steps: those of a fixed order of that many samples.
///
/// ```
/// use damper_core::noise::Participation;
///
/// // 10 epochs of 100 steps, over 1000 samples in a fixed order.
/// let run = Participation::new(1000, 100, 10)?.of_samples(1000)?;
/// assert_eq!((run.batch(0), run.batch(103)), (Some(0..10), Some(30..40)));
/// assert_eq!((run.steps(), run.separation(), run.participations(), run.samples()), (1000, 100, 10, Some(1000)));
/// assert_eq!(Participation::single(50)?.participations(), 1);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Participation {
    steps: u32,
    separation: u32,
    participations: u32,
    /// 0 if not declared.
    samples: u32,
}

impl Participation {
    /// Largest number of steps of a run with correlated noise.
    pub const MAX_STEPS: u32 = 1_000_000;

    /// Creates a pattern. `participations` is limited to `⌈steps / separation⌉`, and `separation` to `steps`.
    ///
    /// # Errors
    ///
    /// Fails if `steps` is outside 1 to 1,000,000, or another number is 0.
    pub fn new(steps: u32, separation: u32, participations: u32) -> Result<Self, ConfigError> {
        if steps == 0 || steps > Self::MAX_STEPS {
            return Err(ConfigError::new("steps", "from 1 to 1000000"));
        }
        if separation == 0 {
            return Err(ConfigError::new("separation", "above 0"));
        }
        if participations == 0 {
            return Err(ConfigError::new("participations", "above 0"));
        }
        let separation = separation.min(steps);
        Ok(Self { steps, separation, participations: participations.min(steps.div_ceil(separation)), samples: 0 })
    }

    /// Creates the pattern of one participation for each sample.
    ///
    /// # Errors
    ///
    /// Fails as [`Participation::new`] does.
    pub fn single(steps: u32) -> Result<Self, ConfigError> {
        Self::new(steps, steps.max(1), 1)
    }

    /// Declares a fixed order of `samples` samples. The number is part of the run. Another number at a single step
    /// would move samples to other batches, closer than the separation.
    ///
    /// # Errors
    ///
    /// Fails if `samples` is 0.
    pub fn of_samples(self, samples: u32) -> Result<Self, ConfigError> {
        if samples == 0 { Err(ConfigError::new("samples", "above 0")) } else { Ok(Self { samples, ..self }) }
    }

    /// Returns the number of samples of the fixed order, if declared.
    #[must_use]
    pub fn samples(&self) -> Option<u32> {
        (self.samples != 0).then_some(self.samples)
    }

    /// Adds to the digest everything that the privacy cost and the steps of a sample depend on.
    pub(super) fn add_to(self, digest: &mut Digest) {
        for number in [self.steps, self.separation, self.participations, self.samples] {
            digest.add_word(number.into());
        }
    }

    /// Returns the number of steps of the run.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns the smallest distance of two steps of a sample, at most the number of steps.
    #[must_use]
    pub fn separation(&self) -> u32 {
        self.separation
    }

    /// Returns the largest number of steps of a sample.
    #[must_use]
    pub fn participations(&self) -> u32 {
        self.participations
    }

    /// Returns true if the worst pattern, 0, b, 2b, …, contains this step.
    pub(super) fn is_worst(&self, step: u32) -> bool {
        let epoch = step.checked_div(self.separation).unwrap_or_default();
        epoch.wrapping_mul(self.separation) == step && epoch < self.participations
    }

    /// Returns the samples of a step, in a fixed order of the [declared](Self::of_samples) samples.
    ///
    /// Every epoch has the same batches, and each sample is in one batch of an epoch. Returns an empty range after the
    /// last allowed epoch, and `None` if no samples are declared.
    #[must_use]
    pub fn batch(&self, step: u32) -> Option<Range<u32>> {
        let (samples, epoch) = (self.samples()?, step.checked_div(self.separation).unwrap_or_default());
        if step >= self.steps || epoch >= self.participations {
            return Some(0..0);
        }
        let size = samples.div_ceil(self.separation.max(1));
        let first = (step - epoch.wrapping_mul(self.separation)).saturating_mul(size).min(samples);
        Some(first..first.saturating_add(size).min(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let name = |steps, separation, times| Participation::new(steps, separation, times).unwrap_err().parameter;
        assert_eq!(name(0, 1, 1), "steps");
        assert_eq!(name(1_000_001, 1, 1), "steps");
        assert_eq!(name(3, 0, 1), "separation");
        assert_eq!(name(3, 1, 0), "participations");
        let most = Participation::new(10, 4, 9).unwrap();
        assert_eq!((most.steps(), most.separation(), most.participations()), (10, 4, 3));
        assert_eq!(Participation::new(10, 40, 9), Participation::single(10));
        assert_eq!(most.of_samples(0).unwrap_err().parameter, "samples");
        assert_eq!((most.samples(), most.batch(0)), (None, None));
    }

    // Batches in a fixed order satisfy the accounted pattern, for sizes that divide evenly and sizes that do not.
    #[test]
    fn fixed_order_satisfies_participation() {
        for samples in [1u32, 3, 7, 10, 11, 100] {
            for (steps, separation, times) in [(12, 4, 3), (12, 4, 2), (11, 5, 9), (7, 7, 1), (9, 1, 9), (5, 8, 1)] {
                let participation = Participation::new(steps, separation, times).unwrap().of_samples(samples).unwrap();
                let mut at = vec![Vec::new(); samples as usize];
                for step in 0..steps + 9 {
                    participation.batch(step).unwrap().for_each(|sample| at[sample as usize].push(step));
                }
                for at in at {
                    assert!(at.len() <= participation.participations() as usize && !at.is_empty(), "{at:?}");
                    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= participation.separation()), "{at:?}");
                }
            }
        }
    }
}
