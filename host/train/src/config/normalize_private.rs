//! Means and standard deviations of feature columns, released once with noise before the first step. This file has the
//! settings, the privacy cost, and the arithmetic of a row and of the released sums.
//!
//! Column j has public bounds `l < h`. A training row with the value x in column j adds `u = (2x − l − h)/(h − l)`,
//! clamped to −1 … 1, to the first sum. It adds `u² − ½` to the second sum. A value that is not a number counts as the
//! middle, `u = 0`. A null row adds nothing. Let `a` and `b` be the means of the two sums over N rows. The release has
//! noisy values of them, and
//!
//! ```text
//! mean = (l + h)/2 + (h − l)/2 · a        std = (h − l)/2 · √v        v = b + ½ − a², from the noise's deviation to 1
//! ```
//!
//! # Privacy
//!
//! `u² + (u² − ½)² = u⁴ + ¼ ≤ 5/4`. So the vector of 2d values that a row adds has norm at most `√(5d/4)`. The core
//! clips it to that norm, on its grid. The release is one event at a rate of 1. The bounds, N and d are public.

use crate::config::release_noise::ReleaseNoise;
use crate::error::TrainError;
use damper_accounting::Accountant;
use damper_core::accounting::SampledGaussian;
use damper_core::noise::DiscreteGaussian;
use damper_data::{Normalize, Split};
use damper_onnx::SettingError;

/// The default is four times the noise of one release at the whole ε, a sixteenth of the budget. Steps then need about
/// 3 % more noise.
const NOISE: ReleaseNoise = ReleaseNoise {
    setting: "normalize_noise_multiplier",
    grid_bits: 20,
    times: 4.0,
    chosen: [1.0, f64::INFINITY],
    given: "from 0.01 to 2000",
};
/// Lower bound on a column's variance, in units of the squared half range.
const LEAST_VARIANCE: f64 = 1e-6;

/// Means and deviations that a run releases and normalises by.
#[derive(Clone, PartialEq, Debug)]
pub struct NormalizePrivate {
    /// Public lower bounds: one for all columns, or one for each column.
    pub lows: Vec<f64>,
    /// Public upper bounds, as many as lower bounds.
    pub highs: Vec<f64>,
    /// σ divided by the bound on a row's vector. If not given, it follows from ε.
    pub noise_multiplier: Option<f64>,
}

impl NormalizePrivate {
    /// Returns an error unless each lower bound is finite and below its finite upper bound.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let ordered = |(low, high): (&f64, &f64)| low.is_finite() && high.is_finite() && low < high;
        if !self.lows.is_empty()
            && self.lows.len() == self.highs.len()
            && self.lows.iter().zip(&self.highs).all(ordered)
        {
            return Ok(());
        }
        Err(self.refused("give finite bounds, each lower one below its upper one"))
    }

    fn refused(&self, problem: impl Into<String>) -> SettingError {
        let bounds = Normalize { means: self.lows.clone(), stds: self.highs.clone() };
        SettingError::new("normalize_private", bounds, problem.into())
    }

    /// Returns the input of `split` that is normalised, and its number of columns.
    pub(crate) fn input(&self, split: &Split) -> Result<(usize, usize), SettingError> {
        let mut floats = split.features().iter().enumerate().filter(|(_, features)| !features.values.are_integers());
        let (Some((input, features)), None) = (floats.next(), floats.next()) else {
            return Err(self.refused("needs a model with one input of floats; leave it out"));
        };
        let columns = features.shape.iter().product();
        if self.lows.len() == 1 || self.lows.len() == columns {
            return Ok((input, columns));
        }
        let problem =
            format!("{} bounds for samples of {columns} values; give one for all, or one for each", self.lows.len());
        Err(self.refused(problem))
    }

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

    /// Returns the bound on the norm of a row's vector.
    pub(crate) fn clip(columns: usize) -> f32 {
        (1.25 * columns as f64).sqrt() as f32
    }

    /// Returns the standard deviation of the noise on a mean over `rows` rows, in units of half the column's range.
    #[must_use]
    pub fn noise(&self, columns: usize, rows: u64) -> f64 {
        self.noise_multiplier.unwrap_or(0.0) * f64::from(Self::clip(columns)) / rows as f64
    }

    /// Returns the middle and half the range of a column.
    fn range(&self, column: usize) -> (f64, f64) {
        let of = |bounds: &[f64]| bounds[if bounds.len() == 1 { 0 } else { column }];
        let (low, high) = (of(&self.lows), of(&self.highs));
        ((low + high) / 2.0, (high - low) / 2.0)
    }

    /// Computes the values that a row, in float64, adds to the two sums of each column.
    pub fn added(&self, row: &[f64], first: &mut [f32], second: &mut [f32]) {
        for (column, ((x, first), second)) in row.iter().zip(first).zip(second).enumerate() {
            let (middle, half) = self.range(column);
            let unit = ((x - middle) / half).clamp(-1.0, 1.0);
            *first = if unit.is_nan() { 0.0 } else { unit as f32 };
            *second = *first * *first - 0.5;
        }
    }

    /// Returns the constants that follow from the noisy means `first` and `second` over `rows` rows.
    pub(crate) fn constants(&self, first: &[f64], second: &[f64], rows: u64) -> Normalize {
        let least = self.noise(first.len(), rows).clamp(LEAST_VARIANCE, 1.0);
        let each = first.iter().zip(second).enumerate().map(|(column, (a, b))| {
            let ((middle, half), a) = (self.range(column), a.clamp(-1.0, 1.0));
            let std = half * (b + 0.5 - a * a).clamp(least, 1.0).sqrt();
            (middle + half * a, std.max(f64::from(f32::MIN_POSITIVE)))
        });
        let (means, stds) = each.unzip();
        Normalize { means, stds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_accounting::calibrate;
    use damper_core::accounting::Rate;

    fn bounded(lows: &[f64], highs: &[f64]) -> NormalizePrivate {
        NormalizePrivate { lows: lows.to_vec(), highs: highs.to_vec(), noise_multiplier: None }
    }

    /// Checks the grid of all rows with values at the bounds, in the middle, outside, and not finite.
    #[test]
    fn row_is_at_most_the_clip_long() {
        let values =
            [-3.0, -1.0, -0.999, -0.5, 0.0, 1e-30, 0.3, 0.7, 1.0, 8.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let normalize = bounded(&[-1.0], &[1.0]);
        let mut longest = 0.0f64;
        for a in values {
            for b in values {
                for c in values {
                    let (mut first, mut second) = ([9.0; 3], [9.0; 3]);
                    normalize.added(&[a, b, c], &mut first, &mut second);
                    let square: f64 = first.iter().chain(&second).map(|x| f64::from(*x).powi(2)).sum();
                    longest = longest.max(square.sqrt());
                }
            }
        }
        let clip = f64::from(NormalizePrivate::clip(3));
        assert!(longest <= clip * (1.0 + 1e-6) && longest > clip * (1.0 - 1e-6), "{longest} {clip}");
    }

    #[test]
    fn exact_sums_give_mean_and_deviation() {
        let rows: Vec<[f64; 2]> =
            (0..500u32).map(|row| [f64::from(row * 37 % 101) - 20.0, 5.0 + f64::from(row % 7) / 10.0]).collect();
        let normalize = bounded(&[-30.0, 4.0], &[90.0, 6.0]);
        let (mut a, mut b) = ([0.0f64; 2], [0.0f64; 2]);
        for row in &rows {
            let (mut first, mut second) = ([0.0; 2], [0.0; 2]);
            normalize.added(row, &mut first, &mut second);
            for column in 0..2 {
                a[column] += f64::from(first[column]) / rows.len() as f64;
                b[column] += f64::from(second[column]) / rows.len() as f64;
            }
        }
        let found = normalize.constants(&a, &b, rows.len() as u64);
        for column in 0..2 {
            let mean = rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
            let squares = rows.iter().map(|row| (row[column] - mean).powi(2)).sum::<f64>();
            let std = (squares / rows.len() as f64).sqrt();
            let (m, s) = (found.means[column], found.stds[column]);
            assert!((m - mean).abs() < 1e-4 && (s / std - 1.0).abs() < 1e-4, "{m} {mean}, {s} {std}");
        }
    }

    /// For any noise, the mean is within the bounds, and the deviation is above the noise and at most half the range.
    #[test]
    fn noisy_sums_give_defined_constants() {
        let noisy = |multiplier| NormalizePrivate { noise_multiplier: Some(multiplier), ..bounded(&[2.0], &[6.0]) };
        for sum in [-1e9, -2.0, -0.5, -1e-9, 0.0, 0.25, 3.0, 1e9] {
            for multiplier in [1.0, 100.0] {
                let found = noisy(multiplier).constants(&[sum, 0.5], &[0.0, sum], 1000);
                let least = 2.0 * noisy(multiplier).noise(2, 1000).sqrt();
                assert!(found.means.iter().all(|mean| (2.0..=6.0).contains(mean)), "{found:?}");
                assert!(found.stds.iter().all(|std| *std >= 0.999 * least && *std <= 2.0), "{found:?}");
            }
        }
        let constant = noisy(1e-9).constants(&[0.0], &[-0.5], 1000);
        assert_eq!((constant.means[0], constant.stds[0]), (4.0, 2e-3));
    }

    #[test]
    fn noise_takes_a_sixteenth_of_the_budget() {
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            let mut open = bounded(&[0.0], &[1.0]);
            open.settle(accountant, 3.0, 1e-5).unwrap();
            let whole = calibrate(accountant, 3.0, 1e-5, Rate::ONE, 1).unwrap().multiplier;
            let event = open.event().unwrap().unwrap();
            assert!((event.multiplier() / whole / NOISE.times - 1.0).abs() < 1e-5 && event.rate() == Rate::ONE);
            let mut given = NormalizePrivate { noise_multiplier: Some(0.5 * whole), ..open.clone() };
            let message = given.settle(accountant, 3.0, 1e-5).unwrap_err().to_string();
            assert!(message.contains("`normalize_noise_multiplier`") && message.contains("alone costs"), "{message}");
        }
        for bad in [0.0, -1.0, 1e-4, 1e4, f64::NAN] {
            let mut given = NormalizePrivate { noise_multiplier: Some(bad), ..bounded(&[0.0], &[1.0]) };
            assert!(given.settle(Accountant::Pld, 3.0, 1e-5).unwrap_err().to_string().contains("from 0.01 to 2000"));
        }
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(bounded(&[low], &[high]).check().is_err());
        }
        assert!(bounded(&[0.0, 1.0], &[1.0]).check().is_err() && bounded(&[], &[]).check().is_err());
    }
}
