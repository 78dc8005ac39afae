//! Metrics of the held-out rows, and the privacy cost of noisy ones.
//!
//! # Privacy
//!
//! A row is either a training row or a held-out row, by its position or its file, which is public. With private metrics the protected
//! data set is the union. The releases form one adaptive sequence, in which a step reads training rows alone and an evaluation reads
//! held-out rows alone:
//!
//! - Neighbours that differ in a training row: given everything released before, an evaluation has the same distribution on both.
//!   Only steps add to the privacy loss, so it is that of the training events.
//! - Neighbours that differ in a held-out row: a step has the same distribution on both. Only evaluations add to the loss.
//!
//! So the run satisfies (ε, δ) with the larger ε of the two parts at the same δ: parallel composition.

use crate::{TrainConfig, TrainError};
use damper_accounting::{Accountant, AccountingError, Plan, calibrate};
use damper_core::accounting::{Event, Rate};
use damper_core::threshold::CountNoise;
use damper_onnx::SettingError;

/// The least noise on a sum, in rows.
const LEAST: f64 = 0.25;

/// The noise of private metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct PrivateMetrics {
    /// On each sum, in rows.
    pub noise: CountNoise,
    /// A row's loss counts as this much at most, above and below zero.
    pub loss_bound: f32,
    /// True if right answers are released next to the loss.
    pub with_accuracy: bool,
    /// True if no sample's loss is below 0, so that a mean below 0 is noise.
    pub loss_is_nonnegative: bool,
    /// Number of releases in the run.
    pub releases: u32,
    /// The price of all releases.
    pub plan: Plan,
}

impl PrivateMetrics {
    /// Noise with which all `releases` cost at most `target` at `delta`, or the least noise that there is.
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
            // The price of a little more noise may be rounded up by a thousandth more.
            if plan.epsilon(accountant, delta)?.epsilon <= target || each <= LEAST {
                return Ok(Self { noise, loss_bound, with_accuracy, loss_is_nonnegative, releases, plan });
            }
            each *= 1.001;
        }
    }

    /// Mean loss and the share of right answers, of noisy sums over `rows` rows. The row count is public; a null row counts as 0. What noise
    /// moves beyond the figures' own bounds is clamped to them.
    pub(crate) fn figures(&self, [right, loss]: [f64; 2], rows: usize) -> (f64, Option<f64>) {
        let mean = |sum: f64| sum / rows.max(1) as f64;
        let accuracy = self.with_accuracy.then(|| mean(right).clamp(0.0, 1.0));
        let least = if self.loss_is_nonnegative { 0.0 } else { -1.0 };
        // Without the sign of a zero.
        (f64::from(self.loss_bound) * (mean(loss).clamp(least, 1.0) + 0.0), accuracy)
    }

    /// One release: both sums together.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        self.plan.events().first().map(|(event, _)| *event)
    }
}

/// The steps between two evaluations, where some come before the end.
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

    // A squared error below 0 is none; a loss of the model's own may be below 0.
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
