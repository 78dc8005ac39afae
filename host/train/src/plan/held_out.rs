//! Metrics of the held-out rows, and the privacy cost of noisy metrics.
//!
//! # Privacy
//!
//! A row is either a training row or a held-out row, by its position or its file, which is public. With private metrics
//! the protected data set is the union. The releases form one adaptive sequence. In it, a step reads only training
//! rows, and an evaluation reads only held-out rows:
//!
//! - Neighbours that differ in a training row: given all earlier releases, an evaluation has the same distribution on
//!   both. Only steps add to the privacy loss, so it is that of the training events.
//! - Neighbours that differ in a held-out row: a step has the same distribution on both. Only evaluations add to the
//!   loss.
//!
//! So the run satisfies (ε, δ) with the larger ε of the two parts at the same δ: parallel composition.

use crate::{TrainConfig, TrainError};
use damper_accounting::{Accountant, AccountingError, Plan, calibrate};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_core::threshold::CountNoise;
use damper_onnx::SettingError;

/// Minimum noise on a sum, in rows.
const LEAST: f64 = 0.25;

/// The noise of private metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct PrivateMetrics {
    /// Noise on each sum, in rows.
    pub noise: CountNoise,
    /// Bound on the magnitude of a row's loss.
    pub loss_bound: f32,
    /// True if the number of right answers is released next to the loss.
    pub with_accuracy: bool,
    /// True if a sample's loss is never negative, so that a negative mean is noise.
    pub loss_is_nonnegative: bool,
    /// Number of releases in the run.
    pub releases: u32,
    /// The plan of all releases, which determines their privacy cost.
    pub plan: Plan,
}

impl PrivateMetrics {
    /// Chooses noise with which all `releases` cost at most `target` at `delta`, or the minimum noise.
    pub(crate) fn new(
        accountant: Accountant,
        (target, delta): (f64, f64),
        releases: u32,
        loss_bound: f32,
        (with_accuracy, loss_is_nonnegative): (bool, bool),
    ) -> Result<Self, TrainError> {
        let joint = match calibrate(accountant, target, delta, Rate::ONE, u64::from(releases)) {
            Ok(found) => found.multiplier,
            Err(AccountingError::TooLarge(_)) => LEAST,
            Err(error) => return Err(error.into()),
        };
        let mut each = if with_accuracy { joint * std::f64::consts::SQRT_2 } else { joint }.max(LEAST);
        loop {
            let noise = CountNoise::new(each).map_err(|_| {
                let problem = format!(
                    "{releases} evaluations need noise of {each:.0} rows; raise `epsilon`, or raise `evaluate_every`"
                );
                SettingError::new("test_metrics", "private", problem)
            })?;
            let other = with_accuracy.then(|| noise.multiplier());
            let plan = Plan::constant(Rate::ONE, noise.multiplier(), other, u64::from(releases))?;
            // The ε of slightly more noise may be rounded up by a thousandth more.
            if plan.epsilon(accountant, delta)?.epsilon <= target || each <= LEAST {
                return Ok(Self { noise, loss_bound, with_accuracy, loss_is_nonnegative, releases, plan });
            }
            each *= 1.001;
        }
    }

    /// Returns the mean loss and the share of right answers from noisy sums over `rows` rows. The row count is public,
    /// and a null row counts as 0. Values that the noise moves beyond their bounds are clamped.
    pub(crate) fn figures(&self, [right, loss]: [f64; 2], rows: usize) -> (f64, Option<f64>) {
        let mean = |sum: f64| sum / rows.max(1) as f64;
        let accuracy = self.with_accuracy.then(|| mean(right).clamp(0.0, 1.0));
        let least = if self.loss_is_nonnegative { 0.0 } else { -1.0 };
        // Adding 0 removes the sign of a zero.
        (f64::from(self.loss_bound) * (mean(loss).clamp(least, 1.0) + 0.0), accuracy)
    }

    /// Returns the event of one release, which has both sums.
    #[must_use]
    pub fn event(&self) -> Option<SampledGaussian> {
        self.plan.events().first().map(|(event, _)| *event)
    }
}

/// Returns the number of steps between two evaluations, if there are evaluations before the end.
pub(crate) fn steps_between(config: &TrainConfig, rate: Rate) -> Option<u32> {
    config.evaluate_every.map(|epochs| ((epochs / rate.as_f64()).round() as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_cost_at_most_the_target() {
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            for (target, releases, with_accuracy) in [(0.5, 1, true), (3.0, 7, true), (3.0, 7, false), (8.0, 40, true)]
            {
                let metrics =
                    PrivateMetrics::new(accountant, (target, 1e-5), releases, 10.0, (with_accuracy, true)).unwrap();
                let priced = metrics.plan.epsilon(accountant, 1e-5).unwrap().epsilon;
                assert!(priced <= target && priced > 0.97 * target, "{priced} {target}");
                let each = metrics.noise.multiplier();
                let joint = metrics.event().unwrap().multiplier();
                let sums = if with_accuracy { 2.0f64 } else { 1.0 };
                assert!((each / joint / sums.sqrt() - 1.0).abs() < 1e-9, "{each} {joint}");
            }
        }
        let least = PrivateMetrics::new(Accountant::Pld, (1e6, 1e-5), 1, 10.0, (true, true)).unwrap();
        assert_eq!(least.noise.multiplier(), LEAST);
        assert!(PrivateMetrics::new(Accountant::Pld, (1e-7, 1e-9), 4000, 10.0, (true, true)).is_err());
    }

    // A negative squared error cannot occur. A loss that the model computes may be negative.
    #[test]
    fn figures_stay_within_their_bounds() {
        let metrics = |loss_is_nonnegative| {
            PrivateMetrics::new(Accountant::Pld, (3.0, 1e-5), 1, 4.0, (true, loss_is_nonnegative)).unwrap()
        };
        for (noisy, wanted) in [
            ([-5.0, -5.0], (0.0, 0.0)),
            ([60.0, 60.0], (4.0, 1.0)),
            ([25.0, 10.0], (0.8, 0.5)),
            ([0.0, -0.0], (0.0, 0.0)),
        ] {
            let (loss, accuracy) = metrics(true).figures(noisy, 50);
            assert_eq!((loss, accuracy), (wanted.0, Some(wanted.1)), "{noisy:?}");
            assert!(loss.is_sign_positive(), "{loss}");
        }
        assert_eq!(metrics(false).figures([0.0, -10.0], 50).0, -0.8);
        assert_eq!(metrics(false).figures([0.0, -60.0], 50).0, -4.0);
    }
}
