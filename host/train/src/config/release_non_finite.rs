//! The number of training rows without a finite gradient, released once with noise before the first step. This file has
//! the settings and the privacy cost.
//!
//! # Privacy
//!
//! A row that is not null adds 1 if its gradient at the initial parameters is not finite, and 0 otherwise. So if one
//! row becomes a null row, the count changes by at most 1, for any privacy unit. The noise multiplier is therefore the
//! standard deviation of the noise in rows. The release is one event at a rate of 1. The number of rows is public.

use crate::config::release_noise::ReleaseNoise;
use crate::error::TrainError;
use damper_accounting::Accountant;
use damper_core::accounting::SampledGaussian;
use damper_core::noise::DiscreteGaussian;

/// The default is sixteen times the noise of one release at the whole ε, a 256th of the budget. Steps then need about
/// 0.2 % more noise.
const NOISE: ReleaseNoise = ReleaseNoise {
    setting: "non_finite_noise_multiplier",
    grid_bits: 16,
    times: 16.0,
    chosen: [1.0, 30_000.0],
    given: "from 0.02 to 30000",
};

/// A count that a run releases.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ReleaseNonFinite {
    /// σ of the noise in rows. If not given, it follows from ε.
    pub noise_multiplier: Option<f64>,
}

impl ReleaseNonFinite {
    /// Chooses the noise multiplier if none is given, for a run of at most ε `target` at `delta`.
    pub(crate) fn settle(&mut self, accountant: Accountant, target: f64, delta: f64) -> Result<(), TrainError> {
        self.noise_multiplier = Some(NOISE.settle(self.noise_multiplier, accountant, target, delta)?);
        Ok(())
    }

    /// Returns the mechanism of the release, after its noise is chosen.
    pub(crate) fn mechanism(&self) -> Result<Option<DiscreteGaussian<i64>>, TrainError> {
        self.noise_multiplier.map(|multiplier| NOISE.mechanism(multiplier)).transpose()
    }

    /// Returns the event of the release, after its noise is chosen.
    pub(crate) fn event(&self) -> Result<Option<SampledGaussian>, TrainError> {
        self.noise_multiplier.map(|multiplier| NOISE.event(multiplier)).transpose()
    }
}

/// A released count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NonFiniteCount {
    /// The noisy number of rows without a finite gradient. `None` if a crash lost it after it was charged.
    pub released: Option<f32>,
    /// Standard deviation of the noise, in rows.
    pub noise: f64,
    /// Number of rows that are counted: all training rows, or the declared number.
    pub rows: u64,
}

impl NonFiniteCount {
    /// Returns the released number rounded to an integer from 0 to `rows`. It is a function of the released number
    /// alone.
    #[must_use]
    pub fn whole(&self) -> Option<u64> {
        // The cast clamps below at 0.
        self.released.map(|released| (f64::from(released).round() as u64).min(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_accounting::{Plan, calibrate};
    use damper_core::accounting::Rate;

    #[test]
    fn noise_takes_a_256th_of_the_budget() {
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            let mut open = ReleaseNonFinite::default();
            open.settle(accountant, 3.0, 1e-5).unwrap();
            let whole = calibrate(accountant, 3.0, 1e-5, Rate::ONE, 1).unwrap().multiplier;
            let event = open.event().unwrap().unwrap();
            assert!((event.multiplier() / whole / 16.0 - 1.0).abs() < 1e-4 && event.rate() == Rate::ONE);
            assert!(event.multiplier() >= 16.0 * whole);
            let mut given = ReleaseNonFinite { noise_multiplier: Some(0.5 * whole) };
            let message = given.settle(accountant, 3.0, 1e-5).unwrap_err().to_string();
            assert!(message.contains("`non_finite_noise_multiplier`") && message.contains("alone costs"), "{message}");
        }
        // A small ε gives large noise. A large ε gives noise of at least 1.
        for (target, multiplier) in [(5e-4, 30_000.0), (1e4, 1.0)] {
            let mut open = ReleaseNonFinite::default();
            open.settle(Accountant::Pld, target, 1e-5).unwrap();
            assert_eq!(open.noise_multiplier, Some(multiplier));
        }
        for bad in [0.0, -1.0, 1e-2, 4e4, f64::NAN] {
            let mut given = ReleaseNonFinite { noise_multiplier: Some(bad) };
            let message = given.settle(Accountant::Pld, 3.0, 1e-5).unwrap_err().to_string();
            assert!(message.contains("from 0.02 to 30000"), "{message}");
        }
        for good in [0.02, 30_000.0] {
            let mut given = ReleaseNonFinite { noise_multiplier: Some(good) };
            given.settle(Accountant::Pld, f64::INFINITY, 1e-5).unwrap();
            // The accounted multiplier is the multiplier that runs. It is on the grid and at least the given value.
            let found = given.noise_multiplier.unwrap();
            assert!(found >= good && found < good + 2.0f64.powi(-16), "{found}");
            assert_eq!(given.mechanism().unwrap().unwrap().multiplier(), found);
            assert!(Plan::constant(Rate::ONE, found, None, 1).is_ok());
        }
    }

    #[test]
    fn whole_number_is_one_of_rows() {
        let whole = |released| NonFiniteCount { released, noise: 1.0, rows: 100 }.whole();
        let found = [-3.5, 0.4, 0.6, 41.5, 100.2, 1e9].map(|released| whole(Some(released)));
        assert_eq!(found, [0, 0, 1, 42, 100, 100].map(Some));
        assert_eq!(whole(None), None);
    }
}
