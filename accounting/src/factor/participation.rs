//! Participation: the number of steps that a sample may be in, and their least distance.

use crate::AccountingError;

/// The most steps that are factorised.
pub const MAX_STEPS: u64 = 1_000_000;

/// A sample takes part in at most `participations` of `steps` steps, any two of them at least `separation` apart. The steps of a
/// sample never depend on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Participation {
    steps: usize,
    separation: usize,
    participations: usize,
}

impl Participation {
    /// `participations` beyond `⌈steps / separation⌉` count as that many.
    ///
    /// # Errors
    ///
    /// `steps` is outside of 1 to [`MAX_STEPS`], or another number is 0.
    pub fn new(steps: u64, separation: u64, participations: u64) -> Result<Self, AccountingError> {
        if steps == 0 || steps > MAX_STEPS {
            return Err(AccountingError::FactorizedSteps(steps));
        }
        if separation == 0 {
            return Err(AccountingError::Separation);
        }
        if participations == 0 {
            return Err(AccountingError::Participations);
        }
        // Beyond the last step, a greater separation is the same.
        let separation = separation.min(steps);
        let participations = participations.min(steps.div_ceil(separation));
        Ok(Self { steps: steps as usize, separation: separation as usize, participations: participations as usize })
    }

    /// Each sample takes part once.
    ///
    /// # Errors
    ///
    /// As [`Participation::new`].
    pub fn single(steps: u64) -> Result<Self, AccountingError> {
        Self::new(steps, steps.max(1), 1)
    }

    /// Steps of the run.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The least distance of two steps of a sample; at most [`Participation::steps`].
    #[must_use]
    pub fn separation(&self) -> usize {
        self.separation
    }

    /// The most steps of a sample.
    #[must_use]
    pub fn participations(&self) -> usize {
        self.participations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participations_are_at_most_possible() {
        let made = Participation::new(10, 4, 9).unwrap();
        assert_eq!((made.steps(), made.separation(), made.participations()), (10, 4, 3));
        assert_eq!(Participation::new(10, 40, 9), Participation::single(10));
        assert_eq!(Participation::new(MAX_STEPS + 1, 1, 1), Err(AccountingError::FactorizedSteps(MAX_STEPS + 1)));
        assert_eq!(Participation::new(0, 1, 1), Err(AccountingError::FactorizedSteps(0)));
        assert_eq!(Participation::new(3, 0, 1), Err(AccountingError::Separation));
        assert_eq!(Participation::new(3, 1, 0), Err(AccountingError::Participations));
    }
}
