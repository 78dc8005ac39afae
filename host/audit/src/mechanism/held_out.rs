//! Noisy figures of held-out rows (`test_metrics` private), on synthetic rows with known figures: noise, sums, charges,
//! and the sensitivity to one row.
//!
//! The run is the trainer's own, evaluated after each step. At the row of zeros the logits are equal, so the first
//! class is predicted. The loss is then the logarithm of the number of classes. A row with a NaN counts as much as any
//! row can.

use super::made::Linear;
use super::released::{ReleasedNoise, paid};
use super::seen::assumed;
use super::tests_of::Tests;
use damper_core::count::UNIT;
use damper_data::{Features, Labels, Numbers, Split};
use damper_train::files::HELD_OUT_LEDGER;
use damper_train::inside::observe::{Given, Observer, Summed};
use damper_train::{PrivateMetrics, Run};
use std::path::{Path, PathBuf};

/// A held-out row: the value in each of its columns, and its label.
pub(super) type Row = (f32, i64);

/// Rows of the base: correct, wrong, and NaN.
pub(super) const ROWS: [Row; 3] = [(0.0, 0), (0.0, 1), (f32::NAN, 0)];

/// Rows that are added to the base. Each may move a sum by one.
pub(super) const ADDED: [Row; 4] = [(f32::NAN, 0), (0.0, 0), (1e30, 1), (-1e30, 2)];

/// Returns the synthetic held-out rows.
pub(super) fn data(linear: Linear, rows: &[Row]) -> Split {
    let values = rows.iter().flat_map(|(x, _)| std::iter::repeat_n(*x, linear.features)).collect();
    let labels = Labels::Classes { shape: vec![], values: rows.iter().map(|(_, label)| *label).collect() };
    Split::made(rows.len(), vec![Features { shape: vec![linear.features], values: Numbers::F32(values) }], labels)
}

/// Returns the sums of correct predictions and of losses over [`ROWS`].
fn sums(linear: Linear, loss_bound: f32) -> [f64; 2] {
    let loss = (linear.classes as f64).ln() / f64::from(loss_bound);
    [2.0, 2.0 * loss.clamp(-1.0, 1.0) + 1.0]
}

/// Observes the releases of runs.
pub(super) struct SeenFigures<'a> {
    run: &'a Run,
    metrics: &'a PrivateMetrics,
    linear: Linear,
    folder: PathBuf,
    /// All noisy sums of the run.
    pub(super) released: Vec<[f64; 2]>,
    /// First release that no charge covered, or that is not on the grid.
    unpaid: Option<String>,
    uneven: Option<String>,
    noise: ReleasedNoise,
    before: Option<[f64; 2]>,
    /// Noise of the step before the release, of two coordinates.
    step: [f64; 2],
    clip: f64,
    releases: u64,
}

impl<'a> SeenFigures<'a> {
    pub(super) fn new(run: &'a Run, metrics: &'a PrivateMetrics, linear: Linear) -> Self {
        Self {
            run,
            metrics,
            linear,
            folder: PathBuf::new(),
            released: vec![],
            unpaid: None,
            uneven: None,
            noise: ReleasedNoise::default(),
            before: None,
            step: [0.0; 2],
            clip: 0.0,
            releases: 0,
        }
    }

    /// Starts the next run, in this folder.
    pub(super) fn again(&mut self, folder: &Path) {
        self.folder = folder.into();
        self.released.clear();
        self.before = None;
    }

    /// Adds the tests. A run makes `planned` releases.
    pub(super) fn conclude(self, planned: u64, tests: &mut Tests) {
        let name = "held-out";
        // The loss is a float that is rounded on the grid.
        self.noise.conclude(name, 2.0 / f64::from(UNIT) / self.metrics.noise.multiplier(), tests);
        let each = |what: &str| format!("{name}: {what}");
        tests.law(&each("each release is paid in its ledger's file"), self.releases, self.unpaid);
        tests.law(&each("released sums are whole units"), self.releases, self.uneven);
        let missing = (self.releases != planned).then(|| format!("{} releases, {planned} are planned", self.releases));
        tests.law(&each("as many releases as are planned"), 1, missing);
        let both = if self.metrics.with_accuracy { 2.0f64.sqrt() } else { 1.0 };
        let joint = self.metrics.noise.multiplier() / both;
        let event = self.metrics.event().map_or(f64::NAN, |event| event.multiplier());
        let holds = event > 0.0 && event <= joint * (1.0 + 1e-6);
        let broken = (!holds).then(|| format!("a multiplier of {event} is priced, where {joint} is that of all sums"));
        tests.law(&each("the event of a release is the one that is planned"), 1, broken);
    }
}

/// Returns the violation of the bound on a row between two runs with the same key, if there is one.
pub(super) fn beyond_one(row: Row, base: &[[f64; 2]], other: &[[f64; 2]]) -> Option<String> {
    let moved = base.iter().zip(other).flat_map(|(a, b)| [(a[0] - b[0]).abs(), (a[1] - b[1]).abs()]);
    let most = moved.fold(0.0, |most: f64, one| if one.is_nan() { f64::INFINITY } else { most.max(one) });
    let holds = most <= 1.0 && base.len() == other.len() && !base.is_empty();
    (!holds).then(|| format!("a row of {row:?} moves a sum by {most:.6} rows"))
}

impl Observer for SeenFigures<'_> {
    fn summed(&mut self, step: Summed<'_>) {
        self.clip = f64::from(step.clip);
    }

    fn given(&mut self, given: Given<'_>) {
        // No sample is drawn.
        let scale = f64::from(self.run.config.batch_size) / self.clip / assumed(self.run, self.released.len() as u32);
        self.step = std::array::from_fn(|at| given.grad.get(at).map_or(0.0, |mean| f64::from(*mean) * scale));
    }

    fn evaluated(&mut self, noisy: [f64; 2]) {
        let number = self.released.len() as u64;
        let said = paid(&self.folder, HELD_OUT_LEDGER);
        if said.is_none_or(|paid| paid <= number) {
            self.unpaid.get_or_insert_with(|| format!("release {number}: the file says {said:?} are paid"));
        }
        if noisy.iter().any(|sum| (sum * f64::from(UNIT)).fract() != 0.0) {
            self.uneven.get_or_insert_with(|| format!("release {number}: {noisy:?}"));
        }
        let known = sums(self.linear, self.metrics.loss_bound);
        let noise: [f64; 2] = std::array::from_fn(|at| (noisy[at] - known[at]) / self.metrics.noise.multiplier());
        noise.iter().for_each(|z| self.noise.add(*z));
        self.noise.pair("both sums", noise[0], noise[1]);
        if let Some(before) = self.before.filter(|_| number % 2 == 1) {
            self.noise.pair("consecutive releases", before[0], noise[0]);
            self.noise.pair("consecutive releases", before[1], noise[1]);
        }
        self.noise.pair("and that of the step", self.step[0], noise[0]);
        self.noise.pair("and that of the step", self.step[1], noise[1]);
        self.before = Some(noise);
        self.released.push(noisy);
        self.releases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_beyond_one_is_found() {
        let base = [[2.0, 1.5], [2.5, 0.25]];
        assert_eq!(beyond_one(ADDED[0], &base, &[[3.0, 0.5], [2.5, 1.25]]), None);
        assert!(beyond_one(ADDED[0], &base, &[[3.0, 1.5], [2.5, 1.5]]).unwrap().contains("by 1.25"));
        assert!(beyond_one(ADDED[0], &base, &[[f64::NAN, 1.5], [2.5, 0.25]]).is_some());
        assert!(beyond_one(ADDED[0], &base, &base[..1]).is_some() && beyond_one(ADDED[0], &[], &[]).is_some());
    }

    // Of three rows two are correct. A loss counts as the bound at most, and a NaN counts as the bound.
    #[test]
    fn known_figures_are_those_of_rows() {
        let linear = Linear { features: 3, classes: 3 };
        let [right, loss] = sums(linear, 10.0);
        assert!(right == 2.0 && (loss - 1.219_722_457_733_622).abs() < 1e-7, "{loss}");
        assert_eq!(sums(linear, 0.25), [2.0, 3.0]);
    }
}
