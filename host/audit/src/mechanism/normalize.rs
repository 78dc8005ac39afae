//! Release of the features' means and deviations (`normalize_private`), on synthetic rows with known values: noise,
//! sums, charge, and the sensitivity to one row.
//!
//! The run is the trainer's own and has one step. Rows reach the public bounds, exceed them, or have a NaN. One row is
//! null.

use super::across::Across;
use super::first_step::FirstStep;
use super::made::{Linear, Numbered};
use super::released::{ReleasedNoise, paid, unpriced};
use super::tests_of::Tests;
use damper_data::Split;
use damper_train::files::NORMALIZE_LEDGER;
use damper_train::inside::observe::{Given, Normalizing, Observer, Summed};
use damper_train::{NormalizePrivate, Run, TrainError};
use std::path::{Path, PathBuf};

/// Number of synthetic rows.
const ROWS: usize = 12;
/// Permitted excess over the clip when a row moves the sums: rounding on the grid, and of 24-bit floats for each clip
/// of noise.
const ROUNDED: [f64; 2] = [1e-3, 3e-5];

/// A row, in half ranges of its column from the middle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Row {
    /// Values from −1.5 to 1.5.
    Mixed(u64),
    /// The same value in every column.
    All(f32),
    /// A null row, which adds nothing.
    Null,
}

/// Returns the rows of the base, or of a neighbour with one more row.
pub(super) fn rows(added: Option<Row>) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..ROWS as u64).map(Row::Mixed).collect();
    rows[1] = Row::All(f32::NAN);
    rows[2] = Row::All(f32::INFINITY);
    rows[3] = Row::Null;
    rows[4] = Row::All(-1.0);
    rows[ROWS - 1] = added.unwrap_or(Row::Null);
    rows
}

/// Rows at the largest distance from the middle that a row can have, and rows that exceed it.
pub(super) const NEIGHBOURS: [Row; 3] = [Row::All(1.0), Row::All(1e30), Row::All(f32::NEG_INFINITY)];

/// Returns `normalize` with one pair of bounds for all columns.
pub(super) fn bounds(normalize: &NormalizePrivate) -> NormalizePrivate {
    NormalizePrivate { lows: normalize.lows[..1].to_vec(), highs: normalize.highs[..1].to_vec(), ..normalize.clone() }
}

/// Returns the synthetic data within the bounds of `normalize`, and the sums of its rows.
pub(super) fn data(normalize: &NormalizePrivate, linear: Linear, rows: &[Row]) -> (Split, Vec<f64>) {
    let columns = linear.features;
    let (low, high) = (normalize.lows[0], normalize.highs[0]);
    let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
    let mut values = Vec::with_capacity(rows.len() * columns);
    let mut sums = vec![0.0; 2 * columns];
    for row in rows {
        let mut numbers = Numbered::new(match row {
            Row::Mixed(seed) => *seed + 11,
            Row::All(_) | Row::Null => 0,
        });
        for column in 0..columns {
            let wanted = match row {
                Row::Mixed(_) => 1.5 * numbers.next(),
                Row::All(unit) => *unit,
                Row::Null => 0.7,
            };
            let x = (middle + half * f64::from(wanted)) as f32;
            values.push(x);
            if *row == Row::Null {
                continue;
            }
            let unit = (2.0 * f64::from(x) - low - high) / (high - low);
            let unit = if unit.is_nan() { 0.0 } else { unit.clamp(-1.0, 1.0) };
            sums[column] += unit;
            sums[columns + column] += unit * unit - 0.5;
        }
    }
    (linear.split(values, rows.iter().map(|row| *row == Row::Null)), sums)
}

/// Observes the release of one run.
pub(super) struct SeenRelease<'a> {
    folder: PathBuf,
    /// Charge in the ledger file before the release, and the noisy sums.
    paid: Option<u64>,
    pub(super) sums: Vec<f64>,
    first: FirstStep<'a>,
}

impl<'a> SeenRelease<'a> {
    pub(super) fn new(run: &'a Run, folder: &Path) -> Self {
        Self { folder: folder.into(), paid: None, sums: vec![], first: FirstStep::new(run) }
    }

    /// Adds the tests of the release. The rows sum to `sums`.
    pub(super) fn conclude(self, normalize: &NormalizePrivate, sums: &[f64], across: &mut Across, tests: &mut Tests) {
        let columns = sums.len() / 2;
        let multiplier = normalize.noise_multiplier.unwrap_or(0.0);
        let clip = (1.25 * columns as f64).sqrt();
        let scale = 1.0 / (multiplier * clip);
        let noise: Vec<f64> = self.sums.iter().zip(sums).map(|(noisy, sum)| (noisy - sum) * scale).collect();
        let mut released = ReleasedNoise::default();
        noise.iter().for_each(|z| released.add(*z));
        noise.chunks_exact(2).for_each(|pair| released.pair("neighbours", pair[0], pair[1]));
        noise.iter().zip(&self.first.noise).for_each(|(a, b)| released.pair("and that of the first step", *a, *b));
        across.step("normalize", 0, &noise);
        // Each row is rounded on the grid of the clip.
        let off = ROWS as f64 * f64::from(2.0f32.powi(-20)) / multiplier + 1e-6;
        released.conclude("normalize", off, tests);
        let whole = self.sums.len() == sums.len();
        tests.law(
            "normalize: as many sums are released as are priced",
            1,
            (!whole).then(|| format!("{} sums, of {columns} columns", self.sums.len())),
        );
        let paid = self.paid == Some(1);
        tests.law(
            "normalize: the release is paid in its ledger's file before it is made",
            1,
            (!paid).then(|| format!("the file says {:?} are paid", self.paid)),
        );
    }
}

/// Returns the violation if the privacy cost of the run omits the release or uses another noise.
pub(super) fn is_priced(run: &Run, normalize: &NormalizePrivate) -> Result<Option<String>, TrainError> {
    Ok(unpriced(run.run_plan()?.events.parts().normalize, normalize.noise_multiplier.unwrap_or(0.0)))
}

/// Returns the distance of two releases with the same key, in clips.
pub(super) fn apart(a: &[f64], b: &[f64]) -> f64 {
    let clip = (1.25 * (a.len() / 2) as f64).sqrt();
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt() / clip
}

/// Returns the violation of the bound on a row, if there is one.
pub(super) fn beyond_the_clip(row: Row, apart: f64, multiplier: f64) -> Option<String> {
    let most = 1.0 + ROUNDED[0] + ROUNDED[1] * multiplier;
    (apart.is_nan() || apart > most).then(|| format!("a row of {row:?} moves the sums by {apart:.6} clips"))
}

impl Observer for SeenRelease<'_> {
    fn normalizing(&mut self, at: Normalizing<'_>) {
        match at {
            Normalizing::Charged => self.paid = paid(&self.folder, NORMALIZE_LEDGER),
            Normalizing::Released { means, rows } => self.sums = means.iter().map(|mean| mean * rows as f64).collect(),
        }
    }

    fn summed(&mut self, step: Summed<'_>) {
        self.first.summed(step);
    }

    fn given(&mut self, given: Given<'_>) {
        self.first.given(given);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_train::NormalizePrivate;

    fn release(multiplier: f64) -> NormalizePrivate {
        NormalizePrivate { lows: vec![-2.0], highs: vec![4.0], noise_multiplier: Some(multiplier) }
    }

    // The trainer's sums of rows are those that the audit computes. A row beyond the bounds moves them by a clip.
    #[test]
    fn known_sums_are_those_of_rows() {
        let (normalize, linear) = (release(1.0), Linear { features: 40, classes: 2 });
        let of = |rows: &[Row]| {
            let (split, known) = data(&normalize, linear, rows);
            let mut sums = vec![0.0f64; 80];
            for (row, values) in split.features()[0].floats().chunks(40).enumerate() {
                let (mut first, mut second) = ([0.0; 40], [0.0; 40]);
                let values: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
                normalize.added(&values, &mut first, &mut second);
                if !split.is_null(row) {
                    sums.iter_mut().zip(first.iter().chain(&second)).for_each(|(sum, x)| *sum += f64::from(*x));
                }
            }
            assert!(sums.iter().zip(&known).all(|(a, b)| (a - b).abs() < 1e-4), "{rows:?}");
            known
        };
        let base = of(&rows(None));
        for row in NEIGHBOURS {
            let moved = apart(&base, &of(&rows(Some(row))));
            assert!((moved - 1.0).abs() < 1e-6, "{row:?}: {moved}");
            assert!(beyond_the_clip(row, moved, 1.0).is_none());
        }
        assert!(beyond_the_clip(Row::Null, 1.01, 1.0).is_some() && beyond_the_clip(Row::Null, f64::NAN, 1.0).is_some());
    }
}
