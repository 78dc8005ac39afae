//! Release of the number of rows without a finite gradient (`release_non_finite`), on synthetic rows with a known
//! number: noise, charge, and the sensitivity to one row.
//!
//! The runs are the trainer's own and have one step. A run releases one number, so the test of its noise takes many
//! runs.

use super::first_step::FirstStep;
use super::made::{Linear, Numbered};
use super::released::{ReleasedNoise, paid, unpriced};
use super::tests_of::Tests;
use damper_data::Split;
use damper_train::files::NON_FINITE_LEDGER;
use damper_train::inside::observe::{Counting, Given, Observer, Summed};
use damper_train::inside::worker::Point;
use damper_train::{ReleaseNonFinite, Run, TrainError};
use std::path::{Path, PathBuf};

/// Number of synthetic rows.
const ROWS: usize = 40;
/// Rounding error of a released number, in 24-bit floats: of the rows, and of each row of noise.
const ROUNDED: [f64; 2] = [1e-3, 1e-6];

/// Kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Row {
    /// Its gradient is finite.
    Usual,
    /// It has a NaN.
    Nan,
    /// It has an infinite number.
    Infinite,
    /// The square of its gradient overflows, unless the network is certain of its class.
    Huge,
    /// A null row, which adds nothing.
    Null,
}

/// Returns the rows of the base, or of a neighbour with one more row.
pub(super) fn rows(added: Option<Row>) -> Vec<Row> {
    let mut rows = vec![Row::Usual; ROWS];
    for (at, row) in [(1, Row::Nan), (2, Row::Infinite), (3, Row::Null), (20, Row::Huge), (38, Row::Nan)] {
        rows[at] = row;
    }
    rows[ROWS - 1] = added.unwrap_or(Row::Null);
    rows
}

/// Rows that a neighbour may add.
pub(super) const NEIGHBOURS: [Row; 4] = [Row::Nan, Row::Infinite, Row::Huge, Row::Usual];

/// Returns the synthetic data.
pub(super) fn data(linear: Linear, rows: &[Row]) -> Split {
    let mut numbers = Numbered::new(17);
    let mut values = Vec::with_capacity(rows.len() * linear.features);
    for row in rows {
        for column in 0..linear.features {
            let usual = numbers.next();
            values.push(match row {
                Row::Nan if column == 0 => f32::NAN,
                Row::Infinite if column == 0 => f32::INFINITY,
                // The values of a null row are never read.
                Row::Huge | Row::Null => 1e25,
                _ => usual,
            });
        }
    }
    linear.split(values, rows.iter().map(|row| *row == Row::Null))
}

/// Returns the number of rows of `split` without a finite gradient at `params`, from the audit's own gradients.
pub(super) fn known(linear: Linear, split: &Split, params: &[f32]) -> f64 {
    let points = [Point { params: params.to_vec(), weight: 1.0 }];
    let without = |row: &usize| !split.is_null(*row) && linear.gradient(split, *row, &points).is_none();
    (0..split.len()).filter(without).count() as f64
}

/// Noise of the releases of all runs.
#[derive(Default)]
pub(super) struct CountNoise {
    noise: ReleasedNoise,
    before: Option<f64>,
    unpaid: Option<String>,
    missing: Option<String>,
    runs: u64,
}

impl CountNoise {
    /// Adds the observation of a run with `known` rows without a finite gradient.
    pub(super) fn add(&mut self, seen: &SeenCount<'_>, known: f64, multiplier: f64) {
        self.runs += 1;
        if seen.paid != Some(1) {
            self.unpaid.get_or_insert_with(|| format!("run {}: the file says {:?} are paid", self.runs, seen.paid));
        }
        let [released] = seen.released[..] else {
            self.missing.get_or_insert_with(|| format!("run {}: {} numbers", self.runs, seen.released.len()));
            return;
        };
        let z = (released - known) / multiplier;
        self.noise.add(z);
        if let Some(before) = self.before.filter(|_| self.runs.is_multiple_of(2)) {
            self.noise.pair("runs in a row", before, z);
        }
        if let Some(step) = seen.first.noise.first() {
            self.noise.pair("and that of the first step", *step, z);
        }
        self.before = Some(z);
    }

    /// Adds the tests.
    pub(super) fn conclude(self, multiplier: f64, tests: &mut Tests) {
        self.noise.conclude("non-finite", 1e-6 + 1e-6 / multiplier, tests);
        tests.law("non-finite: the release is paid in its ledger's file before it is made", self.runs, self.unpaid);
        tests.law("non-finite: a run releases one number", self.runs, self.missing);
    }
}

/// Observes the release of one run.
pub(super) struct SeenCount<'a> {
    folder: PathBuf,
    /// Charge in the ledger file before the release.
    paid: Option<u64>,
    pub(super) released: Vec<f64>,
    first: FirstStep<'a>,
}

impl<'a> SeenCount<'a> {
    pub(super) fn new(run: &'a Run, folder: &Path) -> Self {
        Self { folder: folder.into(), paid: None, released: vec![], first: FirstStep::new(run) }
    }
}

/// Returns the violation if the privacy cost of the run omits the release or uses another noise.
pub(super) fn is_priced(run: &Run, asked: &ReleaseNonFinite) -> Result<Option<String>, TrainError> {
    Ok(unpriced(run.run_plan()?.events.parts().non_finite, asked.noise_multiplier.unwrap_or(0.0)))
}

/// Returns the violation if `row` does not move the count by `added` rows between two runs with the same key.
pub(super) fn moved_wrongly(row: Row, added: f64, [base, other]: [&[f64]; 2], multiplier: f64) -> Option<String> {
    let ([base], [other]) = (base, other) else { return Some("a run released no number".into()) };
    let (moved, off) = (other - base, ROUNDED[0] + ROUNDED[1] * multiplier);
    let holds = (moved - added).abs() <= off && added <= 1.0;
    (!holds).then(|| format!("a row of {row:?} moves the count by {moved:.4} rows"))
}

impl Observer for SeenCount<'_> {
    fn counting(&mut self, at: Counting) {
        match at {
            Counting::Charged => self.paid = paid(&self.folder, NON_FINITE_LEDGER),
            Counting::Released(count) => self.released.push(f64::from(count)),
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

    // Rows with NaN and infinity have no finite gradient. A huge row has none while the network is uncertain of its
    // class. A null row is not counted.
    #[test]
    fn known_count_is_that_of_rows() {
        let linear = Linear { features: 3, classes: 3 };
        for (added, more) in [
            (None, 0.0),
            (Some(Row::Nan), 1.0),
            (Some(Row::Infinite), 1.0),
            (Some(Row::Huge), 1.0),
            (Some(Row::Usual), 0.0),
        ] {
            assert_eq!(known(linear, &data(linear, &rows(added)), &[0.01; 18]), 4.0 + more, "{added:?}");
        }
    }

    #[test]
    fn row_that_moves_more_than_one_is_found() {
        for (row, added) in [(Row::Nan, 1.0), (Row::Usual, 0.0)] {
            assert_eq!(moved_wrongly(row, added, [&[-3.25], &[-3.25 + added]], 1.0), None);
            assert!(moved_wrongly(row, added, [&[2.0], &[3.0 + added]], 1.0).unwrap().contains("moves the count"));
            assert!(moved_wrongly(row, added, [&[2.0], &[f64::NAN]], 1.0).is_some());
            assert!(moved_wrongly(row, added, [&[2.0], &[]], 1.0).is_some());
            assert!(moved_wrongly(row, added, [&[], &[2.0]], 1.0).is_some());
        }
        assert!(moved_wrongly(Row::Nan, 2.0, [&[2.0], &[4.0]], 1.0).is_some());
    }
}
